// Kernels that reach what this CPU can do at most; runtime_ext/cpu/peak.py times them.
#include <tvm/ffi/tvm_ffi.h>

#include <cstdint>

namespace tvm_ios {

namespace {

namespace ffi = tvm::ffi;

// Independent sums: enough for two units of a latency of four cycles, few enough for 16 registers;
// on Arm for four, and 32 registers.
#ifdef __aarch64__
constexpr int kSums = 24;
#else
constexpr int kSums = 12;
#endif
// Multiply-adds of each sum in a tile; some microseconds.
constexpr int kSteps = 4096;
// Numbers of a tile of the triad.
constexpr std::int64_t kStrip = 1 << 14;

namespace narrow {
constexpr int kWidth = 4;
#define PEAK_TARGET
#include "peak_kernels.inc"
#undef PEAK_TARGET
}  // namespace narrow

#ifdef __x86_64__
namespace avx2 {
constexpr int kWidth = 8;
#define PEAK_TARGET __attribute__((target("avx2,fma")))
#include "peak_kernels.inc"
#undef PEAK_TARGET
}  // namespace avx2

namespace avx512 {
constexpr int kWidth = 16;
#define PEAK_TARGET __attribute__((target("avx512f")))
#include "peak_kernels.inc"
#undef PEAK_TARGET
}  // namespace avx512
#endif

struct PeakKernels {
  std::int64_t width;
  decltype(&narrow::MultiplyAdd) multiply_add;
  decltype(&narrow::Triad) triad;
};

// Those of the widest vectors that this CPU has.
const PeakKernels& Widest() {
  static const PeakKernels kernels = [] {
#ifdef __x86_64__
    if (__builtin_cpu_supports("avx512f")) {
      return PeakKernels{avx512::kWidth, avx512::MultiplyAdd, avx512::Triad};
    }
    if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) {
      return PeakKernels{avx2::kWidth, avx2::MultiplyAdd, avx2::Triad};
    }
#endif
    return PeakKernels{narrow::kWidth, narrow::MultiplyAdd, narrow::Triad};
  }();
  return kernels;
}

float* Numbers(ffi::TensorView tensor) { return static_cast<float*>(tensor.data_ptr()); }

// Two vectors of factors, the second one added; a vector of sums a tile.
void MultiplyAdd(ffi::TensorView factors, ffi::TensorView sums, std::int64_t begin,
                 std::int64_t end) {
  Widest().multiply_add(Numbers(factors), Numbers(sums), begin, end);
}

void Triad(ffi::TensorView a, ffi::TensorView b, ffi::TensorView c, std::int64_t begin,
           std::int64_t end) {
  Widest().triad(Numbers(a), Numbers(b), Numbers(c), begin, end);
}

// What a tile is: numbers of a vector, sums, multiply-adds of each; numbers of a strip.
ffi::Array<std::int64_t> Tile() { return {Widest().width, kSums, kSteps, kStrip}; }

}  // namespace

TVM_FFI_DLL_EXPORT_TYPED_FUNC(peak_multiply_add, MultiplyAdd);
TVM_FFI_DLL_EXPORT_TYPED_FUNC(peak_triad, Triad);
TVM_FFI_DLL_EXPORT_TYPED_FUNC(peak_tile, Tile);

}  // namespace tvm_ios
