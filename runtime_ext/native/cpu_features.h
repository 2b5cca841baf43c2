// Which instructions this machine has.
#ifndef TVM_IOS_NATIVE_CPU_FEATURES_H_
#define TVM_IOS_NATIVE_CPU_FEATURES_H_

#include <istream>
#include <set>
#include <string>
#include <vector>

namespace tvm_ios {

// The CPU features that decide whether code runs, in LLVM's names: the only list of them.
std::vector<std::string> KnownFeatures();

// Which of some features, in LLVM's names, this machine does not have; what is not known is missing.
std::vector<std::string> MissingFeatures(const std::vector<std::string>& required);
// The same of the machine whose /proc/cpuinfo is given.
std::vector<std::string> MissingFeatures(const std::vector<std::string>& required,
                                         std::istream& cpuinfo);

// The flags in /proc/cpuinfo, without those of AMX where Linux does not let it be used; empty if there are
// none.
std::set<std::string> HostFlags();

}  // namespace tvm_ios

#endif  // TVM_IOS_NATIVE_CPU_FEATURES_H_
