// A counter that threads raise and others wait for: they spin first and then sleep.
#ifndef TVM_IOS_NATIVE_SIGNAL_H_
#define TVM_IOS_NATIVE_SIGNAL_H_

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <limits>
#include <mutex>

namespace tvm_ios {

inline void Pause() {
#if defined(__x86_64__) || defined(__i386__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}

// Aligned to two cache lines: neighbouring lines are fetched in pairs, and a lane's progress
// must not travel with another lane's.
class alignas(128) Signal {
 public:
  std::uint64_t value() const { return value_.load(std::memory_order_acquire); }

  void Publish(std::uint64_t value) {
    // Sequentially consistent on both sides (here and in Sleep): either the sleeper sees the
    // new value before it sleeps, or we see what it wants.
    value_.store(value, std::memory_order_seq_cst);
    if (value >= wanted_.load(std::memory_order_seq_cst)) Wake();
  }

  // Taking the lock orders this against a waiter that has tested but does not sleep yet.
  void Wake() {
    { std::lock_guard<std::mutex> lock(mutex_); }
    wakeup_.notify_all();
  }

  // Some hundred cycles at most; whether the value has reached the target.
  bool SpinBriefly(std::uint64_t target) const {
    for (int i = 0; i < 32; ++i) {
      if (value() >= target) return true;
      Pause();
    }
    return false;
  }

  // Whether the value has reached the target in so much time.
  bool Spin(std::uint64_t target, const std::atomic<bool>& cancelled,
            std::chrono::nanoseconds duration) const {
    if (value() >= target) return true;
    if (duration.count() <= 0) return false;
    const auto deadline = std::chrono::steady_clock::now() + duration;
    do {
      if (SpinBriefly(target)) return true;
    } while (!cancelled.load(std::memory_order_relaxed) &&
             std::chrono::steady_clock::now() < deadline);
    return false;
  }

  // True when the value has reached the target, false when cancelled before.
  bool Sleep(std::uint64_t target, const std::atomic<bool>& cancelled) {
    std::unique_lock<std::mutex> lock(mutex_);
    ++sleepers_;
    wanted_.store(std::min(wanted_.load(std::memory_order_relaxed), target),
                  std::memory_order_seq_cst);
    wakeup_.wait(lock, [&] {
      return value_.load(std::memory_order_seq_cst) >= target ||
             cancelled.load(std::memory_order_seq_cst);
    });
    // Others that still sleep want more than the least; waking them once too often is harmless.
    if (--sleepers_ == 0) wanted_.store(kNobody, std::memory_order_seq_cst);
    return value() >= target;
  }

 private:
  static constexpr std::uint64_t kNobody = std::numeric_limits<std::uint64_t>::max();

  std::atomic<std::uint64_t> value_{0};
  // The least value that a sleeper waits for: others need not be woken for less.
  std::atomic<std::uint64_t> wanted_{kNobody};
  std::uint32_t sleepers_ = 0;
  std::mutex mutex_;
  std::condition_variable wakeup_;
};

}  // namespace tvm_ios

#endif  // TVM_IOS_NATIVE_SIGNAL_H_
