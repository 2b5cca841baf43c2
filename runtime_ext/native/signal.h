// A counter that threads raise and others wait for: they spin first and then sleep.
//
// tests/memory_model/test_executor.py tries the orders of all atomics here, and weaker ones.
#ifndef TVM_IOS_NATIVE_SIGNAL_H_
#define TVM_IOS_NATIVE_SIGNAL_H_

#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <climits>
#include <cstdint>
#include <limits>

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
  // Acquires all that was written before the value was published.
  std::uint64_t value() const { return value_.load(std::memory_order_acquire); }

  void Publish(std::uint64_t value) {
    // Sequentially consistent on both sides (here and in Sleep): either the sleeper sees the
    // new value before it sleeps, or we see what it wants.
    value_.store(value, std::memory_order_seq_cst);
    if (value >= wanted_.load(std::memory_order_seq_cst)) Wake();
  }

  // Wakes all sleepers; who still has to wait says so again. There is no lock that a thread could
  // hold, or a place that it has to leave, while the system gives it no CPU: condition variables
  // let who signals wait for whom they woke before.
  void Wake() {
    wanted_.store(kNobody, std::memory_order_seq_cst);
    // Who hears this ring sees what it is rung for, be it a value or that the wait is cancelled; the
    // system call's lock is between who does not and is not asleep yet, and the waking.
    bell_.fetch_add(1, std::memory_order_release);
    syscall(SYS_futex, &bell_, FUTEX_WAKE_PRIVATE, INT_MAX, nullptr, nullptr, 0);
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
      // Seen late it costs a round.
    } while (!cancelled.load(std::memory_order_relaxed) &&
             std::chrono::steady_clock::now() < deadline);
    return false;
  }

  // True when the value has reached the target, false when cancelled before.
  bool Sleep(std::uint64_t target, const std::atomic<bool>& cancelled) {
    for (;;) {
      // Before saying what is wanted: whoever rings after that makes the system call return.
      const std::uint32_t rung = bell_.load(std::memory_order_acquire);
      std::uint64_t least = wanted_.load(std::memory_order_seq_cst);
      while (least > target && !wanted_.compare_exchange_weak(least, target, std::memory_order_seq_cst)) {
      }
      if (value_.load(std::memory_order_seq_cst) >= target) return true;
      if (cancelled.load(std::memory_order_relaxed)) return false;
      syscall(SYS_futex, &bell_, FUTEX_WAIT_PRIVATE, rung, nullptr, nullptr, 0);
    }
  }

 private:
  static constexpr std::uint64_t kNobody = std::numeric_limits<std::uint64_t>::max();

  std::atomic<std::uint64_t> value_{0};
  // The least value that a sleeper waits for: others need not be woken for less.
  std::atomic<std::uint64_t> wanted_{kNobody};
  // Counts how often sleepers were woken; where the system lets them sleep.
  std::atomic<std::uint32_t> bell_{0};
  static_assert(sizeof(std::atomic<std::uint32_t>) == sizeof(std::uint32_t));
};

}  // namespace tvm_ios

#endif  // TVM_IOS_NATIVE_SIGNAL_H_
