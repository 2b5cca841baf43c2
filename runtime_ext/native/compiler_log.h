// What TVM's compiler says on stderr.
#ifndef TVM_IOS_NATIVE_COMPILER_LOG_H_
#define TVM_IOS_NATIVE_COMPILER_LOG_H_

namespace tvm_ios {

// Keeps off std::cerr, from now on, warnings of TVM's own choice of code, of which no user can do
// anything; all else passes.
void DropCompilerWarnings();

}  // namespace tvm_ios

#endif  // TVM_IOS_NATIVE_COMPILER_LOG_H_
