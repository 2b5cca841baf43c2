// Runs a plan: one thread a lane, launches and waits on step counters.
#ifndef TVM_IOS_NATIVE_EXECUTOR_H_
#define TVM_IOS_NATIVE_EXECUTOR_H_

#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "fork_count.h"
#include "plan.h"
#include "signal.h"

namespace tvm_ios {

// When a launch ran, in nanoseconds since its run began.
struct Span {
  std::int64_t begin = 0;
  std::int64_t end = 0;
};

struct ExecutorOptions {
  // Bind each lane to one CPU, the calling thread for the time of a run only. Without a wish:
  // if there are as many lanes as CPUs. Then there is nothing to choose, and systems have been
  // seen to wake two lanes on one CPU after a pause.
  std::optional<bool> pin;
  // How long a lane that waits keeps its CPU busy before it sleeps. With more lanes than CPUs
  // (or CPUs' worth of time in the container's quota) it sleeps at once.
  std::chrono::nanoseconds spin = std::chrono::milliseconds(1);
};

class Executor {
 public:
  struct Deleter {
    void operator()(Executor* executor) const;
  };
  using Pointer = std::unique_ptr<Executor, Deleter>;

  // Lane 0 is the thread that calls Run; each other lane that has work gets its own thread.
  static Pointer Make(std::unique_ptr<Plan> plan, const ExecutorOptions& options);
  Executor(const Executor&) = delete;
  Executor& operator=(const Executor&) = delete;

  // Throws an ffi::Error of kind KernelError that names the unit if a kernel fails, of kind
  // BusyError if it is running already or closed, and of kind ForkError in a forked child that
  // has none of its threads.
  void Run();
  // Seconds a run, one figure a sample of `number` runs.
  std::vector<double> Benchmark(std::int64_t number, std::int64_t repeat);
  // One run; spans of each lane's launches in order.
  std::vector<std::vector<Span>> Profile();
  // Ends the threads, after the run in progress if there is one; later runs are refused.
  void Close();

  const Plan& plan() const { return *plan_; }

 private:
  using Clock = std::chrono::steady_clock;
  class Exclusive;

  Executor(std::unique_ptr<Plan> plan, const ExecutorOptions& options);
  ~Executor() { Close(); }

  // Whether the threads are in another process.
  bool Forked() const { return !helpers_.empty() && ForkCount() != forks_; }
  void Release();
  void StartThreads();
  void RunOnce();
  void RunLane(std::size_t lane);
  template <bool kTimed>
  void RunSteps(std::size_t lane);
  void Work(std::size_t lane);
  void Fail(std::string message, std::string backtrace);

  const std::uint64_t forks_ = ForkCount();
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
  std::atomic<bool> closed_{false};
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
