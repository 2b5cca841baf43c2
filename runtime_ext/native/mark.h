// Numbers that only grow from run to run: a run, and in it a count.
#ifndef TVM_IOS_NATIVE_MARK_H_
#define TVM_IOS_NATIVE_MARK_H_

#include <cstdint>

namespace tvm_ios {

// Of a lane's launches, or of lanes; Plan refuses more. Runs have the other 44 bits: one a
// microsecond for half a year.
constexpr int kCountBits = 20;
constexpr std::uint64_t kMostCounted = (std::uint64_t{1} << kCountBits) - 1;

inline std::uint64_t Mark(std::uint64_t run, std::uint64_t count) {
  return run << kCountBits | count;
}
inline std::uint64_t RunOf(std::uint64_t mark) { return mark >> kCountBits; }
inline std::uint64_t CountOf(std::uint64_t mark) { return mark & kMostCounted; }

}  // namespace tvm_ios

#endif  // TVM_IOS_NATIVE_MARK_H_
