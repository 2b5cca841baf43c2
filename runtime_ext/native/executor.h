// Runs a plan: one thread a lane, launches and waits on step counters.
#ifndef TVM_IOS_NATIVE_EXECUTOR_H_
#define TVM_IOS_NATIVE_EXECUTOR_H_

#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "plan.h"
#include "signal.h"

namespace tvm_ios {

// When a launch ran, in nanoseconds since its run began.
struct Span {
  std::int64_t begin = 0;
  std::int64_t end = 0;
};

class Executor {
 public:
  // Lane 0 is the thread that calls Run; each other lane that has work gets its own thread.
  Executor(std::unique_ptr<Plan> plan, bool pin, std::chrono::nanoseconds spin);
  ~Executor() { Close(); }
  Executor(const Executor&) = delete;
  Executor& operator=(const Executor&) = delete;

  // Throws an ffi::Error of kind KernelError that names the unit if a kernel fails, and of
  // kind BusyError if another thread is inside.
  void Run();
  // Seconds a run, one figure a sample of `number` runs.
  std::vector<double> Benchmark(std::int64_t number, std::int64_t repeat);
  // One run; spans of each lane's launches in order.
  std::vector<std::vector<Span>> Profile();
  // Ends the threads; later runs are refused. May be called twice.
  void Close();

 private:
  using Clock = std::chrono::steady_clock;
  class Exclusive;

  void RunOnce();
  void RunLane(std::size_t lane);
  template <bool kTimed>
  void RunSteps(std::size_t lane);
  void Work(std::size_t lane);
  void Fail(std::string message, std::string backtrace);

  std::unique_ptr<Plan> plan_;
  std::vector<int> cpus_;
  bool pin_;
  std::chrono::nanoseconds spin_;

  // Launches that a lane has finished in this run.
  std::vector<Signal> progress_;
  // Runs that a lane has finished, and runs begun.
  std::vector<Signal> finished_;
  Signal begun_;
  std::uint64_t runs_ = 0;

  std::atomic<bool> abort_{false};
  std::atomic<bool> stop_{false};
  std::atomic<bool> busy_{false};
  bool closed_ = false;
  const std::atomic<bool> never_{false};

  std::mutex failure_mutex_;
  std::string failure_;
  std::string failure_backtrace_;

  bool timed_ = false;
  Clock::time_point origin_;
  std::vector<std::vector<Span>> spans_;

  std::vector<std::thread> threads_;
  // The lanes that the threads work on.
  std::vector<std::size_t> helpers_;
};

}  // namespace tvm_ios

#endif  // TVM_IOS_NATIVE_EXECUTOR_H_
