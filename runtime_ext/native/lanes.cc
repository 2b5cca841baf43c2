// What a lane does in a run: its own launches, and those of lanes that are held up.
#include <time.h>

#include <algorithm>
#include <exception>
#include <optional>
#include <thread>
#include <utility>
#include <vector>

#include "affinity.h"
#include "executor.h"
#include "float_mode.h"
#include "mark.h"
#include "thread_watch.h"

namespace tvm_ios {

namespace {

std::int64_t Nanoseconds(std::chrono::steady_clock::duration time) {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(time).count();
}

// The CPU time of the calling thread.
std::int64_t ThreadNanoseconds() {
  timespec time{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
  return std::int64_t{time.tv_sec} * 1'000'000'000 + time.tv_nsec;
}

// How long to sleep at once for a piece whose thread has no CPU.
constexpr std::chrono::nanoseconds kNap = std::chrono::microseconds(20);

// Calls the function of a launch for one of so many pieces of its tiles.
void CallPiece(const Step& step, std::uint64_t piece, std::uint64_t count) {
  const std::int64_t tiles = step.end - step.begin;
  const auto cut = [&](std::uint64_t place) {
    return step.begin + tiles * static_cast<std::int64_t>(place) / static_cast<std::int64_t>(count);
  };
  std::vector<ffi::AnyView> arguments(step.arguments, step.arguments + step.argument_count);
  arguments[arguments.size() - 2] = cut(piece);
  arguments[arguments.size() - 1] = cut(piece + 1);
  ffi::Any result;
  step.function->CallPacked(arguments.data(), step.argument_count, &result);
}

}  // namespace

void Executor::RunLane(std::uint64_t run, std::size_t lane) {
  const NoSubnormals zeros;
  const Lane& mine = plan_->lanes()[lane];
  std::uint64_t launch = 0;
  for (const Step& step : mine.steps) {
    if (step.IsWait()) {
      if (!AwaitLaunches(run, step.lane, step.launches, lane)) return;
      continue;
    }
    // What others have done for this lane, or are doing.
    if (progress_[lane].value() < Mark(run, launch + 1)) {
      if (abort_.load(std::memory_order_relaxed)) return;
      if (Claim(run, lane, launch, lane)) {
        if (!Launch(run, lane, launch, lane)) return;
      } else if (!AwaitLaunches(run, lane, launch + 1, lane)) {
        return;
      }
    }
    ++launch;
  }
  // The caller has to see the end of the run. Other threads only look for a while whether somebody
  // is held up, as long as they would be awake anyway.
  for (std::size_t other = 0; other < progress_.size(); ++other) {
    const std::uint64_t all = plan_->lanes()[other].launches;
    if (!AwaitOrStandIn(run, other, all, lane, lane == 0)) return;
  }
}

// Whether nobody has begun the launch in this run; then the caller has to run it.
bool Executor::Claim(std::uint64_t run, std::size_t lane, std::uint64_t launch, std::size_t self) {
  std::atomic<std::uint64_t>& claim = claims_[lane][launch];
  std::uint64_t last = claim.load(std::memory_order_relaxed);
  return RunOf(last) < run &&
         claim.compare_exchange_strong(last, Mark(run, self), std::memory_order_relaxed);
}

// Runs what was claimed; false if it fails.
bool Executor::Launch(std::uint64_t run, std::size_t lane, std::uint64_t launch,
                      std::size_t self) {
  const Lane& owner = plan_->lanes()[lane];
  const Step& step = owner.steps[owner.places[launch]];
  if (!pin_ && !helpers_.empty()) {
    std::atomic<int>& last = cpus_of_lanes_[self];
    const int cpu = ThisCpu();
    // Not written without need: lanes would take the cache line from each other at every launch.
    if (last.load(std::memory_order_relaxed) != cpu) last.store(cpu, std::memory_order_relaxed);
  }
  Pieces* const pieces = helpers_.empty() ? nullptr : &pieces_[lane][launch];
  try {
    if (timed_.load(std::memory_order_relaxed)) {
      Span& span = spans_[lane][launch];
      span.runner = static_cast<std::int32_t>(self);
      const std::int64_t computed = ThreadNanoseconds();
      span.begin = Nanoseconds(Clock::now() - origin_);
      if (!CallAll(run, step, pieces)) return false;
      span.end = Nanoseconds(Clock::now() - origin_);
      const std::int64_t passed = span.end - span.begin;
      span.held_up = std::max<std::int64_t>(0, passed - (ThreadNanoseconds() - computed));
    } else if (!CallAll(run, step, pieces)) {
      return false;
    }
    progress_[lane].Publish(Mark(run, launch + 1));
    return true;
  } catch (...) {
    FailIn(step, lane);
  }
  return false;
}

// Computes all tiles of a launch, with what others take of them; false if the run is cancelled.
bool Executor::CallAll(std::uint64_t run, const Step& step, Pieces* pieces) {
  // A shape may leave a lane nothing to do.
  if (step.begin == step.end) return true;
  const bool learning = pieces != nullptr && pieces->Learning();
  const std::uint64_t count =
      pieces == nullptr || learning ? 1 : pieces->Count(step.end - step.begin, piece_);
  if (count == 1) {
    const Clock::time_point begun = learning ? Clock::now() : Clock::time_point();
    ffi::Any result;
    step.function->CallPacked(step.arguments, step.argument_count, &result);
    if (learning) pieces->Learn(Clock::now() - begun, step.end - step.begin);
    return true;
  }
  pieces->Open(run, count);
  while (const std::optional<std::uint64_t> piece = pieces->Take(run, true)) {
    if (abort_.load(std::memory_order_relaxed)) return false;
    CallPiece(step, *piece, count);
    pieces->Done();
  }
  const Clock::time_point deadline = Clock::now() + spin_;
  while (pieces->done() < count) {
    if (abort_.load(std::memory_order_relaxed)) return false;
    if (Clock::now() < deadline) {
      Pause();
    } else {
      std::this_thread::sleep_for(kNap);
    }
  }
  return true;
}

// Computes a piece of a launch that somebody runs; false if there is none to be had.
bool Executor::Help(std::uint64_t run, std::size_t lane, std::uint64_t launch) {
  const Lane& owner = plan_->lanes()[lane];
  const Step& step = owner.steps[owner.places[launch]];
  Pieces& pieces = pieces_[lane][launch];
  const std::optional<std::uint64_t> piece = pieces.Take(run, false);
  if (!piece.has_value()) return false;
  try {
    CallPiece(step, *piece, pieces.Count(step.end - step.begin, piece_));
    pieces.Done();
  } catch (...) {
    FailIn(step, lane);
  }
  return true;
}

// Reports the exception that is being handled.
void Executor::FailIn(const Step& step, std::size_t lane) {
  std::string reason;
  std::string backtrace;
  try {
    throw;
  } catch (const ffi::Error& error) {
    reason = error.kind() + ": " + error.message();
    backtrace = error.backtrace();
  } catch (const std::exception& error) {
    reason = error.what();
  } catch (...) {
    reason = "an exception of unknown type";
  }
  Fail(plan_->Describe(step, lane) + ": " + reason, std::move(backtrace));
}

// The launch on which a lane's next one waits in the end, or itself: it runs, or may be begun.
Executor::Pending Executor::FindPending(std::uint64_t run, std::size_t lane) const {
  const std::vector<Lane>& lanes = plan_->lanes();
  for (;;) {
    const std::uint64_t mark = progress_[lane].value();
    const std::uint64_t launch = CountOf(mark);
    if (RunOf(mark) != run || launch == lanes[lane].launches) return {true, lane, launch, {}};
    const std::uint64_t claim = claims_[lane][launch].load(std::memory_order_relaxed);
    if (RunOf(claim) >= run) return {RunOf(claim) > run, lane, launch, CountOf(claim)};
    // Launches before it are done, so are their waits: only its own ones are left.
    const std::vector<Step>& steps = lanes[lane].steps;
    std::size_t place = launch == 0 ? 0 : lanes[lane].places[launch - 1] + 1;
    for (; place < lanes[lane].places[launch]; ++place) {
      if (progress_[steps[place].lane].value() < Mark(run, steps[place].launches)) break;
    }
    if (place == lanes[lane].places[launch]) return {false, lane, launch, {}};
    // No circle: a program whose lanes wait for each other was refused.
    lane = steps[place].lane;
  }
}

// Waits for a lane's launches of a run; false if the run is cancelled before.
bool Executor::AwaitLaunches(std::uint64_t run, std::size_t lane, std::uint64_t launches,
                             std::size_t self) {
  return progress_[lane].value() >= Mark(run, launches) ||
         AwaitOrStandIn(run, lane, launches, self, true);
}

// The same, or false when it would sleep longer than until the next launch is done.
bool Executor::AwaitOrStandIn(std::uint64_t run, std::size_t lane, std::uint64_t launches,
                              std::size_t self, bool sleeping) {
  Signal& signal = progress_[lane];
  const std::uint64_t target = Mark(run, launches);
  const bool helping = patience_.count() >= 0;
  // Lanes that all run are hardly apart.
  if (signal.Spin(target, abort_, std::min(patience_, spin_))) return true;
  ThreadWatch watch;
  Clock::time_point deadline = Clock::now() + spin_;
  while (!signal.SpinBriefly(target)) {
    if (abort_.load(std::memory_order_relaxed)) return false;
    const Pending pending = FindPending(run, lane);
    if (pending.over) continue;
    if (pending.runner.has_value() && helping && Help(run, pending.lane, pending.launch)) {
      deadline = Clock::now() + spin_;
      continue;
    }
    if (!pending.runner.has_value()) {
      if (helping && Claim(run, pending.lane, pending.launch, self)) {
        std::atomic<int>& cpu = cpus_of_lanes_[pending.lane];
        if (!pin_ && cpu.load(std::memory_order_relaxed) == ThisCpu()) {
          // It may wait for this very CPU, which is not given up to it while there is work.
          MoveAway(threads_of_lanes_[pending.lane].load(std::memory_order_relaxed));
          cpu.store(-1, std::memory_order_relaxed);
        }
        if (!Launch(run, pending.lane, pending.launch, self)) return false;
        deadline = Clock::now() + spin_;
      }
      if (helping) continue;
    }
    const bool late = Clock::now() >= deadline;
    const pid_t thread =
        threads_of_lanes_[pending.runner.value_or(pending.lane)].load(std::memory_order_relaxed);
    if (!late && watch.MayRun(thread)) continue;
    if (late) {
      if (!sleeping) return false;
      signal.Sleep(target, abort_);
    } else {
      // It was stopped in the middle of its launch: this CPU can go on with it.
      if (!pin_) MoveHere(thread);
      progress_[pending.lane].Sleep(Mark(run, pending.launch + 1), abort_);
    }
  }
  return true;
}

}  // namespace tvm_ios
