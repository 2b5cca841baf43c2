#include "thread_watch.h"

#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>

namespace tvm_ios {

namespace {

// Negative if there is no such thread any more.
std::chrono::nanoseconds CpuTime(pid_t thread) {
  // As the kernel numbers the scheduler's clocks of threads (and glibc, pthread_getcpuclockid, which
  // takes no number of a thread).
  const auto clock = static_cast<clockid_t>(~static_cast<unsigned>(thread) << 3 | 6);
  timespec time;
  if (clock_gettime(clock, &time) != 0) return std::chrono::nanoseconds(-1);
  return std::chrono::seconds(time.tv_sec) + std::chrono::nanoseconds(time.tv_nsec);
}

}  // namespace

pid_t ThisThread() { return static_cast<pid_t>(syscall(SYS_gettid)); }

bool ThreadWatch::MayRun(pid_t thread) {
  const Clock::time_point now = Clock::now();
  if (thread == thread_ && now - seen_ < interval_) return true;
  const std::chrono::nanoseconds has = CpuTime(thread);
  const bool known = thread == thread_ && has.count() >= 0 && had_.count() >= 0;
  const bool stopped = known && has - had_ < (now - seen_) / 4;
  interval_ = known ? std::min(interval_ * 2, kLongest) : kShortest;
  thread_ = thread;
  seen_ = now;
  had_ = has;
  return !stopped;
}

}  // namespace tvm_ios
