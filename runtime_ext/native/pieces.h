// The tiles of a launch in pieces, which the thread that runs it and those that wait for it share.
#ifndef TVM_IOS_NATIVE_PIECES_H_
#define TVM_IOS_NATIVE_PIECES_H_

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <limits>
#include <optional>

namespace tvm_ios {

// A launch is cut by what its tiles took in the first runs; how many it has may change. Its runner
// takes the first piece of those that are left, others the last one.
class Pieces {
 public:
  using Nanoseconds = std::chrono::nanoseconds;

  // In how many pieces to cut so many tiles, each worth so much time.
  std::uint64_t Count(std::uint64_t tiles, Nanoseconds piece) const {
    const std::int64_t least = least_.load(std::memory_order_relaxed);
    if (least == kUnknown) return 1;
    const double took = static_cast<double>(least) * static_cast<double>(tiles) / kPicoseconds;
    const auto worth = static_cast<std::uint64_t>(took / static_cast<double>(piece.count()));
    return std::clamp(worth, std::uint64_t{1}, std::min(kMost, std::max(tiles, std::uint64_t{1})));
  }

  // Whether its time is still to be found out, uncut. Whoever has claimed the launch asks and learns.
  bool Learning() const { return learned_.load(std::memory_order_relaxed) < kLearningRuns; }
  void Learn(Nanoseconds took, std::uint64_t tiles) {
    const std::int64_t each = took.count() * kPicoseconds / static_cast<std::int64_t>(tiles);
    least_.store(std::min(least_.load(std::memory_order_relaxed), each), std::memory_order_relaxed);
    learned_.fetch_add(1, std::memory_order_relaxed);
  }

  // Lets pieces be taken in a run; the runner does so once it has claimed the launch. It releases
  // what it has seen to who helps, and that none is done.
  void Open(std::uint64_t run, std::uint64_t count) {
    done_.store(0, std::memory_order_relaxed);
    left_.store(Word(run, 0, count), std::memory_order_release);
  }

  // The number of a piece that nobody else has; none if there are no more, or not in this run.
  // The first look acquires what the launch depends on; taking only decides who has the piece.
  std::optional<std::uint64_t> Take(std::uint64_t run, bool first) {
    std::uint64_t word = left_.load(std::memory_order_acquire);
    for (;;) {
      const std::uint64_t front = word >> kBits & kMask;
      const std::uint64_t back = word & kMask;
      if (word >> 2 * kBits != run || front == back) return std::nullopt;
      const std::uint64_t rest = first ? Word(run, front + 1, back) : Word(run, front, back - 1);
      if (left_.compare_exchange_weak(word, rest, std::memory_order_relaxed)) {
        return first ? front : back - 1;
      }
    }
  }

  // A piece that was taken is computed: its results go to the runner.
  void Done() { done_.fetch_add(1, std::memory_order_release); }
  std::uint64_t done() const { return done_.load(std::memory_order_acquire); }

 private:
  static constexpr int kBits = 8;
  static constexpr std::uint64_t kMask = (1 << kBits) - 1;
  static constexpr std::uint64_t kMost = 16;
  static constexpr std::uint64_t kLearningRuns = 4;
  static constexpr std::int64_t kPicoseconds = 1000;
  static constexpr std::int64_t kUnknown = std::numeric_limits<std::int64_t>::max();

  static std::uint64_t Word(std::uint64_t run, std::uint64_t front, std::uint64_t back) {
    return run << 2 * kBits | front << kBits | back;
  }

  // The run, and which pieces are left in it: from the one, to the other.
  std::atomic<std::uint64_t> left_{0};
  std::atomic<std::uint64_t> done_{0};
  // The fewest picoseconds that a tile took, and in how many runs that was looked at; from one run
  // to the next they go with all else that lanes publish.
  std::atomic<std::int64_t> least_{kUnknown};
  std::atomic<std::uint64_t> learned_{0};
};

}  // namespace tvm_ios

#endif  // TVM_IOS_NATIVE_PIECES_H_
