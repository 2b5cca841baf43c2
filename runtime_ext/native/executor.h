// Runs a plan: one thread a lane, launches and waits on step counters; lanes stand in for one
// another.
//
// A launch belongs to a lane, whose thread runs it unless this thread is held up: it sleeps, or the
// system has given its CPU to somebody else. Whoever would wait for a launch that is ready and that
// nobody has begun claims it, runs it and publishes it as its lane would have; of one that takes
// long and that somebody runs, slower than the others, it takes pieces. So a lane holds up others at
// most with the piece that it is in, and is not needed for a run at all. Launches of
// a lane are claimed in their order, each once a run, and only when all that the program makes them
// wait for is done: results and the use of memory are those of the program, whoever runs it.
#ifndef TVM_IOS_NATIVE_EXECUTOR_H_
#define TVM_IOS_NATIVE_EXECUTOR_H_

#include <sys/types.h>

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
#include "pieces.h"
#include "plan.h"
#include "signal.h"

namespace tvm_ios {

// When a launch ran, in nanoseconds since its run began; for how many of these the system ran
// something else on the thread's CPU; and the lane whose thread ran it, -1 on devices where nobody
// stands in.
struct Span {
  std::int64_t begin = 0;
  std::int64_t end = 0;
  std::int64_t held_up = 0;
  std::int32_t runner = -1;
};

struct ExecutorOptions {
  // Bind each lane to one CPU, the calling thread for the time of a run only. A lane that is bound
  // has to wait where another process computes, though the next CPU may have become free.
  bool pin = false;
  // How long a lane that waits keeps its CPU busy before it sleeps, if the one that it waits for
  // has a CPU. With more lanes than CPUs it sleeps at once, and with more than CPUs' worth of time
  // in the container's quota after what it takes to be woken.
  std::chrono::nanoseconds spin = std::chrono::milliseconds(1);
  // How long a launch may be ready without its lane beginning it, before who waits for it does;
  // negative: for ever. Lanes that are awake take a fraction of a microsecond.
  std::chrono::nanoseconds patience = std::chrono::microseconds(5);
  // The least time that a piece of a launch takes: more than it costs to have another lane take it.
  std::chrono::nanoseconds piece = std::chrono::microseconds(15);
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
  // Gives the plan's references their values, between two runs.
  void Bind(const std::vector<std::int64_t>& values) { plan_->Bind(values); }
  // The lane's thread as the system numbers it; 0 before it has begun, or a run for lane 0.
  pid_t thread(std::size_t lane) const { return threads_of_lanes_[lane].load(std::memory_order_relaxed); }

 private:
  using Clock = std::chrono::steady_clock;
  class Exclusive;

  Executor(std::unique_ptr<Plan> plan, const ExecutorOptions& options);
  ~Executor() { Close(); }

  // A launch that others wait for: the first one of its lane that is not done.
  struct Pending {
    // The run is over, or the launch is done meanwhile.
    bool over = false;
    std::size_t lane = 0;
    std::uint64_t launch = 0;
    // Whose thread runs it, if anybody's does.
    std::optional<std::size_t> runner;
  };

  // Whether the threads are in another process.
  bool Forked() const { return !helpers_.empty() && ForkCount() != forks_; }
  void Release();
  void StartThreads();
  void RunOnce();
  void Work(std::size_t lane);
  bool AwaitRun(std::uint64_t run);
  void Fail(std::string message, std::string backtrace);

  // What a lane does in a run: lanes.cc.
  void RunLane(std::uint64_t run, std::size_t lane);
  bool AwaitLaunches(std::uint64_t run, std::size_t lane, std::uint64_t launches, std::size_t self);
  bool AwaitOrStandIn(std::uint64_t run, std::size_t lane, std::uint64_t launches,
                      std::size_t self, bool sleeping);
  bool Claim(std::uint64_t run, std::size_t lane, std::uint64_t launch, std::size_t self);
  bool Launch(std::uint64_t run, std::size_t lane, std::uint64_t launch, std::size_t self);
  bool CallAll(std::uint64_t run, const Step& step, Pieces* pieces);
  bool Help(std::uint64_t run, std::size_t lane, std::uint64_t launch);
  void FailIn(const Step& step, std::size_t lane);
  Pending FindPending(std::uint64_t run, std::size_t lane) const;

  const std::uint64_t forks_ = ForkCount();
  std::unique_ptr<Plan> plan_;
  std::vector<int> cpus_;
  bool pin_;
  std::chrono::nanoseconds spin_;
  std::chrono::nanoseconds patience_;
  std::chrono::nanoseconds piece_;

  // The run and how many of a lane's launches are done in it, as one number that only grows: a
  // thread that wakes up in a later run finds what it waited for done.
  std::vector<Signal> progress_;
  // For each lane, for each launch the last run in which it was claimed, and by whom. They only
  // decide who runs it: what it needs was acquired from the progress of lanes before.
  std::vector<std::vector<std::atomic<std::uint64_t>>> claims_;
  // For each lane, for each launch its tiles.
  std::vector<std::vector<Pieces>> pieces_;
  // Runs that a lane's thread has left, and runs begun.
  std::vector<Signal> left_;
  Signal begun_;
  std::uint64_t runs_ = 0;
  // By lane, as the system numbers them; 0 before a thread has begun. Like the CPUs below they are
  // hints: an old one moves a thread without need, or not.
  std::vector<std::atomic<pid_t>> threads_of_lanes_;

  // Where each lane's thread last began a launch; -1 if it was sent away from there since.
  std::vector<std::atomic<int>> cpus_of_lanes_;

  // A run has failed: seen late it costs a launch, sleepers are told by the bells of progress_, and
  // why it failed is read when all threads have left the run.
  std::atomic<bool> abort_{false};
  std::atomic<bool> stop_{false};
  std::atomic<bool> busy_{false};
  std::atomic<bool> closed_{false};
  const std::atomic<bool> never_{false};

  std::mutex failure_mutex_;
  std::string failure_;
  std::string failure_backtrace_;

  // Set before a run is published.
  std::atomic<bool> timed_{false};
  Clock::time_point origin_;
  std::vector<std::vector<Span>> spans_;

  std::vector<std::thread> threads_;
  // The lanes that the threads work on.
  std::vector<std::size_t> helpers_;
};

}  // namespace tvm_ios

#endif  // TVM_IOS_NATIVE_EXECUTOR_H_
