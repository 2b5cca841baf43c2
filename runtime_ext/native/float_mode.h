// How the calling thread computes with floats.
#ifndef TVM_IOS_NATIVE_FLOAT_MODE_H_
#define TVM_IOS_NATIVE_FLOAT_MODE_H_

#include <cstdint>

#if defined(__x86_64__)
#include <xmmintrin.h>
#endif

namespace tvm_ios {

// As long as it lives, subnormal numbers count as zeros: processors take a hundred times longer to
// compute with them, and what decays, such as a logistic function's tail, becomes subnormal before
// it becomes zero. Results differ by less than the least normal number.
class NoSubnormals {
 public:
  NoSubnormals() : before_(Read()) {
    if ((before_ & kZeros) != kZeros) Write(before_ | kZeros);
  }
  ~NoSubnormals() {
    if ((before_ & kZeros) != kZeros) Write(before_);
  }
  NoSubnormals(const NoSubnormals&) = delete;
  NoSubnormals& operator=(const NoSubnormals&) = delete;

 private:
#if defined(__x86_64__)
  using Mode = std::uint32_t;
  // Operands, and results.
  static constexpr Mode kZeros = 0x0040 | 0x8000;
  static Mode Read() { return _mm_getcsr(); }
  static void Write(Mode mode) { _mm_setcsr(mode); }
#elif defined(__aarch64__)
  using Mode = std::uint64_t;
  static constexpr Mode kZeros = Mode{1} << 24;
  static Mode Read() {
    Mode mode;
    asm volatile("mrs %0, fpcr" : "=r"(mode));
    return mode;
  }
  static void Write(Mode mode) { asm volatile("msr fpcr, %0" : : "r"(mode)); }
#else
  using Mode = std::uint32_t;
  static constexpr Mode kZeros = 0;
  static Mode Read() { return 0; }
  static void Write(Mode) {}
#endif
  const Mode before_;
};

}  // namespace tvm_ios

#endif  // TVM_IOS_NATIVE_FLOAT_MODE_H_
