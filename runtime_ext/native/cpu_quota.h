// CPU time that control groups allow to this process.
#ifndef TVM_IOS_NATIVE_CPU_QUOTA_H_
#define TVM_IOS_NATIVE_CPU_QUOTA_H_

#include <limits>
#include <string>

namespace tvm_ios {

constexpr double kNoQuota = std::numeric_limits<double>::infinity();

// CPUs' worth of time: the least limit of the process's own group and of those around it, of
// version 1 or 2; kNoQuota without any.
double CpuQuota(const std::string& groups = "/sys/fs/cgroup",
                const std::string& membership = "/proc/self/cgroup");

}  // namespace tvm_ios

#endif  // TVM_IOS_NATIVE_CPU_QUOTA_H_
