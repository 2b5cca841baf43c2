#include "sampling.h"

#include <sys/resource.h>

#include <algorithm>
#include <cmath>
#include <random>

namespace tvm_ios {

namespace {

constexpr double kWarmUpSeconds = 2e-3;
// A long program needs no more samples than take so long, and these are enough for a median.
constexpr double kSamplesSeconds = 1.2e-2;
constexpr std::int64_t kFewestSamples = 5;
// An idle system stops a thread every 30 ms or so, and soon lets it go on; a busy one more often.
constexpr double kUsualSeconds = 1e-2;
// Rounds of a profile: enough for a median, and no more than take so many seconds.
constexpr double kRounds = 15, kFewestRounds = 5, kProfileSeconds = 5e-3;
// No clock is finer.
constexpr double kShortest = 1e-9;
// Numbers that are drawn; after them they repeat, which a copy does many times as fast.
constexpr std::int64_t kDrawn = 1 << 14;

std::int64_t RunsIn(double seconds, double run_seconds) {
  return std::max<std::int64_t>(1, std::ceil(seconds / std::max(run_seconds, kShortest)));
}

std::int64_t Interruptions() {
  rusage usage;
  getrusage(RUSAGE_SELF, &usage);
  return usage.ru_nivcsw;
}

template <typename Number, typename Draw>
void Fill(const ffi::Tensor& tensor, Draw draw) {
  Number* const first =
      reinterpret_cast<Number*>(static_cast<char*>(tensor.data_ptr()) + tensor.byte_offset());
  Number* const end = first + tensor.numel();
  Number* const drawn = first + std::min<std::int64_t>(tensor.numel(), kDrawn);
  std::generate(first, drawn, draw);
  for (Number* next = drawn; next < end;) {
    next = std::copy_n(first, std::min(drawn - first, end - next), next);
  }
}

}  // namespace

Sampled Undisturbed(std::int64_t samples, std::int64_t tries, std::int64_t allowed,
                    const std::function<double()>& sample,
                    const std::function<std::int64_t()>& interruptions) {
  const auto wanted = static_cast<std::size_t>(samples);
  Samples undisturbed, all;
  while (undisturbed.size() < wanted && all.size() < wanted * static_cast<std::size_t>(tries)) {
    const std::int64_t before = interruptions();
    all.push_back(sample());
    if (interruptions() - before <= allowed) undisturbed.push_back(all.back());
  }
  if (tries == 1) return {all};
  if (2 * undisturbed.size() >= wanted) return {undisturbed};
  std::sort(all.begin(), all.end());
  all.resize(wanted);
  return {all, true};
}

Sampled TimeProgram(Executor* executor, const Sampling& sampling) {
  const double first = executor->Benchmark(1, 1).front();
  const double run = executor->Benchmark(RunsIn(kWarmUpSeconds, first), 1).front();
  const std::int64_t runs = RunsIn(sampling.sample_seconds, run);
  const double seconds = std::max(run, kShortest) * static_cast<double>(runs);
  const auto enough = static_cast<std::int64_t>(kSamplesSeconds / seconds);
  const std::int64_t samples = std::clamp(enough, kFewestSamples, sampling.samples);
  return Undisturbed(
      samples, sampling.tries, static_cast<std::int64_t>(seconds / kUsualSeconds),
      [&] { return executor->Benchmark(runs, 1).front(); }, Interruptions);
}

std::vector<Samples> ProfileLaunches(Executor* executor) {
  executor->Run();
  const double run = std::max(executor->Benchmark(1, 1).front(), kShortest);
  const double rounds = std::max(kFewestRounds, std::min(kRounds, kProfileSeconds / run));
  std::vector<Samples> seconds;
  for (std::int64_t round = 0; round < static_cast<std::int64_t>(rounds); ++round) {
    const std::vector<Span> spans = executor->Profile().front();
    seconds.resize(spans.size());
    for (std::size_t launch = 0; launch < spans.size(); ++launch) {
      const double took = static_cast<double>(spans[launch].end - spans[launch].begin) * 1e-9;
      seconds[launch].push_back(std::max(took, kShortest));
    }
  }
  return seconds;
}

void FillRandom(const ffi::Tensor& tensor, std::uint32_t seed) {
  const DLDataType type = tensor.dtype();
  if (type.code != kDLFloat && type.code != kDLBfloat) return;
  // The standard says which numbers this one draws, unlike its distributions.
  std::mt19937 random(seed);
  if (type.code == kDLFloat && type.bits >= 32) {
    const auto draw = [&random] { return (random() >> 8) * 0x1p-24 - 0.5; };
    type.bits == 32 ? Fill<float>(tensor, draw) : Fill<double>(tensor, draw);
    return;
  }
  // By their bits: a sign, the exponent of 0.25 to 0.5, and any mantissa.
  const std::uint16_t exponent = type.code == kDLFloat ? 13 << 10 : 125 << 7;
  const std::uint16_t drawn = type.code == kDLFloat ? 0x83ff : 0x807f;
  if (type.bits == 16) {
    Fill<std::uint16_t>(tensor, [&] { return (random() & drawn) | exponent; });
  }
}

}  // namespace tvm_ios
