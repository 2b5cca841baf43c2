// A counter that one thread raises and others wait for: they spin first and then sleep.
#ifndef TVM_IOS_NATIVE_SIGNAL_H_
#define TVM_IOS_NATIVE_SIGNAL_H_

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <thread>

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
  // Only while nobody waits.
  void Reset() { value_.store(0, std::memory_order_relaxed); }

  void Publish(std::uint64_t value) {
    // Sequentially consistent on both sides (here and in Await): either the sleeper sees the
    // new value before it sleeps, or we see the sleeper.
    value_.store(value, std::memory_order_seq_cst);
    if (sleepers_.load(std::memory_order_seq_cst) != 0) Wake();
  }

  // Taking the lock orders this against a waiter that has tested but does not sleep yet.
  void Wake() {
    { std::lock_guard<std::mutex> lock(mutex_); }
    wakeup_.notify_all();
  }

  // True when the value has reached the target, false when cancelled before.
  bool Await(std::uint64_t target, const std::atomic<bool>& cancelled,
             std::chrono::nanoseconds spin) {
    if (value_.load(std::memory_order_acquire) >= target) return true;
    if (Spin(target, cancelled, spin)) return true;
    if (!cancelled.load(std::memory_order_acquire)) Sleep(target, cancelled);
    return value_.load(std::memory_order_acquire) >= target;
  }

 private:
  bool Spin(std::uint64_t target, const std::atomic<bool>& cancelled,
            std::chrono::nanoseconds spin) {
    if (spin.count() == 0) return false;
    const auto deadline = std::chrono::steady_clock::now() + spin;
    int rounds = 0;
    do {
      for (int i = 0; i < 64; ++i) {
        if (value_.load(std::memory_order_acquire) >= target) return true;
        Pause();
      }
      // Whoever is waited for may be queued behind us on this CPU, where others compete for it.
      if (++rounds > kRoundsBeforeYield) std::this_thread::yield();
    } while (!cancelled.load(std::memory_order_relaxed) &&
             std::chrono::steady_clock::now() < deadline);
    return false;
  }

  void Sleep(std::uint64_t target, const std::atomic<bool>& cancelled) {
    sleepers_.fetch_add(1, std::memory_order_seq_cst);
    {
      std::unique_lock<std::mutex> lock(mutex_);
      wakeup_.wait(lock, [&] {
        return value_.load(std::memory_order_seq_cst) >= target ||
               cancelled.load(std::memory_order_seq_cst);
      });
    }
    sleepers_.fetch_sub(1, std::memory_order_relaxed);
  }

  // About 20 microseconds: longer than lanes that all run are apart.
  static constexpr int kRoundsBeforeYield = 16;

  std::atomic<std::uint64_t> value_{0};
  std::atomic<std::uint32_t> sleepers_{0};
  std::mutex mutex_;
  std::condition_variable wakeup_;
};

}  // namespace tvm_ios

#endif  // TVM_IOS_NATIVE_SIGNAL_H_
