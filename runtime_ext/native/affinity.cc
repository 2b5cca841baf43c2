#include "affinity.h"

#include <pthread.h>
#include <sched.h>

#include <atomic>
#include <cerrno>
#include <climits>
#include <new>
#include <thread>

#include "fork_count.h"

namespace tvm_ios {

namespace {

constexpr int kBits = sizeof(unsigned long) * CHAR_BIT;

// Held by the one thread that changes masks. Two that read a thread's mask, change it and write it
// back at once could leave it with what the other one had made of it for a moment.
class Changing {
 public:
  explicit Changing(bool wait) {
    // Whoever held it before a fork does not exist in the child.
    const std::uint64_t own = ForkCount() + 1;
    for (;;) {
      std::uint64_t holder = holder_.load(std::memory_order_relaxed);
      // What the holder before has done is seen.
      if (holder != own && holder_.compare_exchange_weak(holder, own, std::memory_order_acquire,
                                                         std::memory_order_relaxed)) {
        held_ = true;
        return;
      }
      if (!wait) return;
      std::this_thread::yield();
    }
  }
  ~Changing() {
    if (held_) holder_.store(0, std::memory_order_release);
  }
  Changing(const Changing&) = delete;
  Changing& operator=(const Changing&) = delete;

  bool held() const { return held_; }

 private:
  static inline std::atomic<std::uint64_t> holder_{0};
  bool held_ = false;
};

// Empty if the system does not tell.
CpuMask MaskOfThisThread() {
  // A cpu_set_t has 1024 CPUs; larger machines refuse it.
  for (std::size_t words = sizeof(cpu_set_t) / sizeof(unsigned long); words <= 4096; words *= 2) {
    CpuMask mask(words);
    const int error = pthread_getaffinity_np(pthread_self(), words * sizeof(unsigned long),
                                             reinterpret_cast<cpu_set_t*>(mask.data()));
    if (error == 0) return mask;
    if (error != EINVAL) break;
  }
  return {};
}

bool BindThisThread(const CpuMask& mask) {
  return pthread_setaffinity_np(pthread_self(), mask.size() * sizeof(unsigned long),
                                reinterpret_cast<const cpu_set_t*>(mask.data())) == 0;
}

}  // namespace

std::vector<int> AllowedCpus() {
  std::vector<int> cpus;
  const CpuMask mask = MaskOfThisThread();
  for (std::size_t word = 0; word < mask.size(); ++word) {
    for (int bit = 0; bit < kBits; ++bit) {
      if (mask[word] >> bit & 1) cpus.push_back(static_cast<int>(word) * kBits + bit);
    }
  }
  if (cpus.empty()) cpus.push_back(0);
  return cpus;
}

PinnedHere::PinnedHere(int cpu) noexcept {
  try {
    const Changing changing(true);
    CpuMask before = MaskOfThisThread();
    CpuMask only(before.size());
    if (static_cast<std::size_t>(cpu / kBits) >= only.size()) return;
    only[cpu / kBits] = 1UL << cpu % kBits;
    // A machine that forbids binding still computes the same: pinning is a wish.
    if (only != before && BindThisThread(only)) before_ = std::move(before);
  } catch (const std::bad_alloc&) {
  }
}

PinnedHere::~PinnedHere() {
  if (before_.empty()) return;
  const Changing changing(true);
  BindThisThread(before_);
}

int ThisCpu() { return sched_getcpu(); }

namespace {

// Binds a thread to some CPUs that it may use, `cpu` or all others, and lets it go again.
void Move(pid_t thread, int cpu, bool away) {
  // Who moves another thread now need not wait: moving is a wish, too.
  const Changing changing(false);
  if (!changing.held()) return;
  cpu_set_t before;
  // Zero would be the calling thread; machines of more CPUs than a cpu_set_t has are left alone.
  if (thread <= 0 || cpu < 0 || sched_getaffinity(thread, sizeof(before), &before) != 0) return;
  if (!CPU_ISSET(cpu, &before) || CPU_COUNT(&before) == 1) return;
  cpu_set_t there;
  CPU_ZERO(&there);
  CPU_SET(cpu, &there);
  if (away) CPU_XOR(&there, &there, &before);
  if (sched_setaffinity(thread, sizeof(there), &there) == 0) {
    sched_setaffinity(thread, sizeof(before), &before);
  }
}

}  // namespace

void MoveHere(pid_t thread) { Move(thread, ThisCpu(), false); }

void MoveAway(pid_t thread) { Move(thread, ThisCpu(), true); }

}  // namespace tvm_ios
