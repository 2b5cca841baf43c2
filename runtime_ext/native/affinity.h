// Binding threads to the CPUs that the process may use.
#ifndef TVM_IOS_NATIVE_AFFINITY_H_
#define TVM_IOS_NATIVE_AFFINITY_H_

#include <sys/types.h>

#include <vector>

namespace tvm_ios {

// A set of CPUs as the kernel takes it, as long as this machine needs.
using CpuMask = std::vector<unsigned long>;

// The CPUs of the calling thread's affinity mask, in order; never empty.
std::vector<int> AllowedCpus();

// Binds the calling thread to one CPU for as long as this object lives.
class PinnedHere {
 public:
  // Binds nothing where there is no memory for it: a lane's thread could not say so to anybody.
  explicit PinnedHere(int cpu) noexcept;
  ~PinnedHere();
  PinnedHere(const PinnedHere&) = delete;
  PinnedHere& operator=(const PinnedHere&) = delete;

 private:
  // Empty if nothing was changed.
  CpuMask before_;
};

// Has the system move another thread, which waits for a CPU, to the caller's one, where it runs as
// soon as the caller sleeps. Where it may run stays as it was. Left to itself the system takes
// milliseconds to see that a CPU has nothing to do.
void MoveHere(pid_t thread);

// Has the system move another thread, which waits for the caller's CPU, to any other one.
void MoveAway(pid_t thread);

// The CPU that the calling thread runs on; -1 if that is not known.
int ThisCpu();

}  // namespace tvm_ios

#endif  // TVM_IOS_NATIVE_AFFINITY_H_
