#include "fork_count.h"

#include <pthread.h>

#include <atomic>

namespace tvm_ios {

namespace {

std::atomic<std::uint64_t> forks{0};

// Cheaper than asking for the process's number before every run.
[[maybe_unused]] const int registered = pthread_atfork(nullptr, nullptr, [] { ++forks; });

}  // namespace

std::uint64_t ForkCount() { return forks.load(std::memory_order_relaxed); }

}  // namespace tvm_ios
