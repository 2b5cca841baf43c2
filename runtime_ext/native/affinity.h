// Binding threads to the CPUs that the process may use.
#ifndef TVM_IOS_NATIVE_AFFINITY_H_
#define TVM_IOS_NATIVE_AFFINITY_H_

#include <vector>

namespace tvm_ios {

// A set of CPUs as the kernel takes it, as long as this machine needs.
using CpuMask = std::vector<unsigned long>;

// The CPUs of the calling thread's affinity mask, in order; never empty.
std::vector<int> AllowedCpus();

// Binds the calling thread to one CPU for as long as this object lives.
class PinnedHere {
 public:
  explicit PinnedHere(int cpu);
  ~PinnedHere();
  PinnedHere(const PinnedHere&) = delete;
  PinnedHere& operator=(const PinnedHere&) = delete;

 private:
  // Empty if nothing was changed.
  CpuMask before_;
};

}  // namespace tvm_ios

#endif  // TVM_IOS_NATIVE_AFFINITY_H_
