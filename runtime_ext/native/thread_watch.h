// Whether another thread of this process has a CPU at the moment.
#ifndef TVM_IOS_NATIVE_THREAD_WATCH_H_
#define TVM_IOS_NATIVE_THREAD_WATCH_H_

#include <sys/types.h>

#include <chrono>
#include <cstdint>

namespace tvm_ios {

// The number by which the system knows the calling thread.
pid_t ThisThread();

// Compares how a thread's CPU time grows with how time goes by. A thread that the system has
// stopped looks to others like one that computes for long, but only the latter is worth spinning
// for.
class ThreadWatch {
 public:
  // False once the thread has stood still between two looks at it; true if that is not known.
  bool MayRun(pid_t thread);

 private:
  using Clock = std::chrono::steady_clock;
  // Looking costs the other CPU a little, too, so the longer it takes the rarer it is.
  static constexpr std::chrono::nanoseconds kShortest = std::chrono::microseconds(4);
  static constexpr std::chrono::nanoseconds kLongest = std::chrono::microseconds(64);

  pid_t thread_ = 0;
  Clock::time_point seen_;
  std::chrono::nanoseconds had_{0};
  std::chrono::nanoseconds interval_ = kShortest;
};

}  // namespace tvm_ios

#endif  // TVM_IOS_NATIVE_THREAD_WATCH_H_
