// TVM's runtime, libtvm_runtime.so, which some of TVM's own kernels call beside tvm-ffi.
#ifndef TVM_IOS_NATIVE_TVM_RUNTIME_H_
#define TVM_IOS_NATIVE_TVM_RUNTIME_H_

namespace tvm_ios {

// Whether the kernels of a library, as dlopen gave it, call that runtime: for large temporaries,
// for threads of its own, or for functions that are registered by name, such as its sorting.
bool CallTvmRuntime(void* library);

// Whether what they call is there; asked after tvm-ffi has loaded the library, too.
bool HaveTvmRuntime(void* library);

}  // namespace tvm_ios

#endif  // TVM_IOS_NATIVE_TVM_RUNTIME_H_
