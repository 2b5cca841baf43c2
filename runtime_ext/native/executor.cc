#include "executor.h"

#include <algorithm>
#include <thread>
#include <exception>
#include <utility>

#include "affinity.h"
#include "cpu_quota.h"
#include "mark.h"
#include "thread_watch.h"

namespace tvm_ios {

// What it takes to wake a thread that sleeps, roughly.
constexpr std::chrono::nanoseconds kWakeUp = std::chrono::microseconds(50);

// Holds the executor for one caller; a second caller is refused instead of made to wait,
// because it would overwrite the buffers that the first one still reads.
class Executor::Exclusive {
 public:
  explicit Exclusive(Executor* owner) : owner_(owner) {
    if (owner_->Forked()) {
      throw ffi::Error("ForkError",
                       "this session was made before the process was forked; its threads are in "
                       "the parent, so make a new one here",
                       "");
    }
    // Acquires what the last one inside has left; Close and Release say what else is asked.
    if (owner_->busy_.exchange(true, std::memory_order_acquire)) {
      throw ffi::Error("BusyError",
                       "this session is running, in another thread or in one of its own kernels; "
                       "make one session a thread",
                       "");
    }
    if (owner_->closed_.load(std::memory_order_relaxed)) {
      owner_->Release();
      throw ffi::Error("BusyError", "this session is closed; make a new one", "");
    }
    // Workers bind themselves once; the calling thread is only lent to us.
    if (owner_->pin_) pinned_.emplace(owner_->cpus_[0]);
  }
  ~Exclusive() { owner_->Release(); }

 private:
  Executor* owner_;
  std::optional<PinnedHere> pinned_;
};

Executor::Pointer Executor::Make(std::unique_ptr<Plan> plan, const ExecutorOptions& options) {
  return Pointer(new Executor(std::move(plan), options));
}

void Executor::Deleter::operator()(Executor* executor) const {
  // In a forked child there is nobody to join.
  if (!executor->Forked()) delete executor;
}

Executor::Executor(std::unique_ptr<Plan> plan, const ExecutorOptions& options)
    : plan_(std::move(plan)),
      cpus_(AllowedCpus()),
      pin_(options.pin),
      spin_(options.spin),
      patience_(options.patience),
      piece_(options.piece),
      progress_(plan_->lanes().size()),
      left_(plan_->lanes().size()),
      threads_of_lanes_(plan_->lanes().size()),
      cpus_of_lanes_(plan_->lanes().size()) {
  const std::vector<Lane>& lanes = plan_->lanes();
  for (std::size_t lane = 1; lane < lanes.size(); ++lane) {
    if (lanes[lane].launches != 0) helpers_.push_back(lane);
  }
  // Binding the caller costs some microseconds a run, for nothing if nobody runs beside it.
  if (helpers_.empty()) pin_ = false;
  const std::size_t running = helpers_.size() + 1;
  if (running > cpus_.size()) {
    // A spinning lane would keep the one it waits for from running.
    spin_ = std::chrono::nanoseconds(0);
  } else if (static_cast<double>(running) > CpuQuota()) {
    // Lanes run side by side until the quota of a period is used up. Of that, to spin for as long
    // as it takes to be woken spends no more than to sleep.
    spin_ = std::min(spin_, kWakeUp);
  }
  spans_.resize(lanes.size());
  for (std::size_t lane = 0; lane < lanes.size(); ++lane) {
    spans_[lane].resize(lanes[lane].launches);
    claims_.emplace_back(lanes[lane].launches);
    pieces_.emplace_back(lanes[lane].launches);
  }
  StartThreads();
}

void Executor::StartThreads() {
  try {
    for (std::size_t lane : helpers_) threads_.emplace_back([this, lane] { Work(lane); });
  } catch (const std::exception& error) {
    const std::size_t lane = helpers_[threads_.size()];
    Close();
    throw ffi::Error("RuntimeError",
                     "no thread can be started for lane " + std::to_string(lane) + ": " +
                         error.what() + "; raise the limit of threads or use fewer lanes",
                     "");
  }
}

void Executor::Close() {
  if (Forked()) return;
  closed_.store(true, std::memory_order_seq_cst);
  // Either we see that nobody is inside, or whoever is sees that it is closed, and ends the
  // threads when leaving (both sides sequentially consistent).
  if (busy_.exchange(true, std::memory_order_seq_cst)) return;
  // The bell tells it on.
  stop_.store(true, std::memory_order_relaxed);
  begun_.Wake();
  for (std::thread& thread : threads_) thread.join();
  threads_.clear();
  busy_.store(false, std::memory_order_release);
}

void Executor::Release() {
  busy_.store(false, std::memory_order_seq_cst);
  if (closed_.load(std::memory_order_seq_cst)) Close();
}

void Executor::Run() {
  Exclusive exclusive(this);
  RunOnce();
}

std::vector<double> Executor::Benchmark(std::int64_t number, std::int64_t repeat) {
  if (number < 1 || repeat < 1) {
    throw ffi::Error("ValueError", "a benchmark needs at least one run and one sample", "");
  }
  Exclusive exclusive(this);
  std::vector<double> seconds;
  for (std::int64_t sample = 0; sample < repeat; ++sample) {
    const Clock::time_point start = Clock::now();
    for (std::int64_t i = 0; i < number; ++i) RunOnce();
    const std::chrono::duration<double> elapsed = Clock::now() - start;
    seconds.push_back(elapsed.count() / static_cast<double>(number));
  }
  return seconds;
}

std::vector<std::vector<Span>> Executor::Profile() {
  Exclusive exclusive(this);
  // Late threads of earlier runs may read it: they have nothing left to time.
  timed_.store(true, std::memory_order_relaxed);
  origin_ = Clock::now();
  try {
    RunOnce();
  } catch (...) {
    timed_.store(false, std::memory_order_relaxed);
    throw;
  }
  timed_.store(false, std::memory_order_relaxed);
  return spans_;
}

void Executor::RunOnce() {
  abort_.store(false, std::memory_order_relaxed);
  ++runs_;
  for (Signal& signal : progress_) signal.Publish(Mark(runs_, 0));
  if (!helpers_.empty()) {
    threads_of_lanes_[0].store(ThisThread(), std::memory_order_relaxed);
    // Publishing releases all of the above to the workers.
    begun_.Publish(runs_);
  }
  RunLane(runs_, 0);
  if (!abort_.load(std::memory_order_relaxed)) return;
  // Of a run that is whole nothing is left to be claimed, so threads may come late to it and even
  // miss it. Here they might still be in a kernel, or begin one.
  for (std::size_t lane : helpers_) left_[lane].Sleep(runs_, never_);
  throw ffi::Error("KernelError", std::move(failure_), std::move(failure_backtrace_));
}

void Executor::Work(std::size_t lane) {
  std::optional<PinnedHere> pinned;
  if (pin_) pinned.emplace(cpus_[lane % cpus_.size()]);
  threads_of_lanes_[lane].store(ThisThread(), std::memory_order_relaxed);
  std::uint64_t run = 0;
  while (AwaitRun(run + 1)) {
    run = begun_.value();
    RunLane(run, lane);
    left_[lane].Publish(run);
  }
}

// Whether there is one before the executor is closed.
bool Executor::AwaitRun(std::uint64_t run) {
  const Clock::time_point deadline = Clock::now() + spin_;
  while (!begun_.SpinBriefly(run)) {
    if (stop_.load(std::memory_order_relaxed) || Clock::now() >= deadline) {
      return begun_.Sleep(run, stop_);
    }
    // Nobody needs this thread now.
    std::this_thread::yield();
  }
  return true;
}

void Executor::Fail(std::string message, std::string backtrace) {
  std::lock_guard<std::mutex> lock(failure_mutex_);
  // The first failure is the cause; later ones may be its consequences.
  if (abort_.load(std::memory_order_relaxed)) return;
  failure_ = std::move(message);
  failure_backtrace_ = std::move(backtrace);
  abort_.store(true, std::memory_order_relaxed);
  for (Signal& signal : progress_) signal.Wake();
}

}  // namespace tvm_ios
