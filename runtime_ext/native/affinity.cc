#include "affinity.h"

#include <pthread.h>

namespace tvm_ios {

std::vector<int> AllowedCpus() {
  std::vector<int> cpus;
  cpu_set_t mask;
  if (pthread_getaffinity_np(pthread_self(), sizeof(mask), &mask) == 0) {
    for (int cpu = 0; cpu < CPU_SETSIZE; ++cpu) {
      if (CPU_ISSET(cpu, &mask)) cpus.push_back(cpu);
    }
  }
  if (cpus.empty()) cpus.push_back(0);
  return cpus;
}

PinnedHere::PinnedHere(int cpu) {
  cpu_set_t only;
  CPU_ZERO(&only);
  CPU_SET(cpu, &only);
  const pthread_t self = pthread_self();
  // A machine that forbids binding still computes the same: pinning is a wish.
  changed_ = pthread_getaffinity_np(self, sizeof(before_), &before_) == 0 &&
             pthread_setaffinity_np(self, sizeof(only), &only) == 0;
}

PinnedHere::~PinnedHere() {
  if (changed_) pthread_setaffinity_np(pthread_self(), sizeof(before_), &before_);
}

}  // namespace tvm_ios
