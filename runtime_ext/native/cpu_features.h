// Which instructions this machine has.
#ifndef TVM_IOS_NATIVE_CPU_FEATURES_H_
#define TVM_IOS_NATIVE_CPU_FEATURES_H_

#include <set>
#include <string>

namespace tvm_ios {

// Linux's name of a CPU feature that LLVM names so; empty if the name is unknown. The same as
// in runtime_ext/machine/cpu_features.py.
std::string LinuxNameOfFeature(const std::string& llvm_name);

// The flags in /proc/cpuinfo; empty if there are none.
std::set<std::string> HostFlags();

}  // namespace tvm_ios

#endif  // TVM_IOS_NATIVE_CPU_FEATURES_H_
