// How long programs take: the one loop by which they are timed, here and on other machines.
#ifndef TVM_IOS_NATIVE_SAMPLING_H_
#define TVM_IOS_NATIVE_SAMPLING_H_

#include <tvm/ffi/tvm_ffi.h>

#include <cstdint>
#include <functional>
#include <vector>

#include "executor.h"

namespace tvm_ios {

namespace ffi = tvm::ffi;

using Samples = std::vector<double>;

struct Sampling {
  // Fewer, but no fewer than five, of programs that take more than a millisecond.
  std::int64_t samples = 12;
  // Of one sample: long enough that the clock and the start of the lanes do not count.
  double sample_seconds = 4e-4;
  // As many times as many samples are taken, at most, until enough were not disturbed.
  std::int64_t tries = 5;
};

// Samples, and whether other work on the machine disturbed most of them.
struct Sampled {
  Samples samples;
  bool disturbed = false;
};

// Seconds a run of a program, after runs that warm it up. Throws as Executor::Benchmark.
Sampled TimeProgram(Executor* executor, const Sampling& sampling);

// For each launch of a program of one lane its seconds, in several rounds. Throws as
// Executor::Profile.
std::vector<Samples> ProfileLaunches(Executor* executor);

// So many samples during which the system stopped threads of the process no more than `allowed`
// times, or half as many, if there are no more among `tries` times as many; else the least of all,
// which are disturbed. A lane that is stopped makes the others wait, so on a busy machine kernels
// seem to gain nothing by more lanes. With one try samples are taken as they come. `interruptions`
// counts how often threads were stopped.
Sampled Undisturbed(std::int64_t samples, std::int64_t tries, std::int64_t allowed,
                    const std::function<double()>& sample,
                    const std::function<std::int64_t()>& interruptions);

// Writes numbers that neither overflow nor become denormal, the same ones in every run and on every
// machine; what is no floating-point tensor stays as it is.
void FillRandom(const ffi::Tensor& tensor, std::uint32_t seed);

}  // namespace tvm_ios

#endif  // TVM_IOS_NATIVE_SAMPLING_H_
