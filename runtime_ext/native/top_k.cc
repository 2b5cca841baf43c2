// The largest or smallest numbers of rows, as ONNX Runtime orders them: NaN is larger than all
// numbers, and of equal ones the first comes first. TVM's own compares NaN like a number.
#include <tvm/ffi/container/tensor.h>
#include <tvm/ffi/tvm_ffi.h>

#include <algorithm>
#include <cstring>
#include <cstdint>
#include <limits>
#include <type_traits>
#include <utility>
#include <vector>

namespace tvm_ios {

namespace {

namespace ffi = tvm::ffi;

constexpr std::int64_t kLargest = std::numeric_limits<std::int64_t>::max();

// A key that grows with the number at a place in memory.
template <typename Bits, Bits infinity>
std::int64_t FloatKey(const char* place) {
  Bits bits;
  std::memcpy(&bits, place, sizeof(bits));
  const Bits magnitude = bits & static_cast<Bits>(~Bits{0}) >> 1;
  if (magnitude > infinity) return kLargest;
  const auto key = static_cast<std::int64_t>(magnitude);
  return magnitude == bits ? key : -key;
}

template <typename Number>
std::int64_t IntegerKey(const char* place) {
  Number number;
  std::memcpy(&number, place, sizeof(number));
  // Of unsigned numbers of 64 bits the upper half comes after the lower one.
  if (std::is_same_v<Number, std::uint64_t>) number ^= Number{1} << 63;
  return static_cast<std::int64_t>(number);
}

char* Bytes(const DLTensor* tensor) {
  return static_cast<char*>(tensor->data) + tensor->byte_offset;
}

template <std::int64_t (*key)(const char*)>
void Choose(const DLTensor* data, DLTensor* values, DLTensor* indices, std::int64_t axis,
            bool ascending) {
  const std::int64_t extent = data->shape[axis], count = values->shape[axis];
  std::int64_t outer = 1, inner = 1;
  for (std::int64_t i = 0; i < axis; ++i) outer *= data->shape[i];
  for (std::int64_t i = axis + 1; i < data->ndim; ++i) inner *= data->shape[i];
  const std::int64_t size = data->dtype.bits / 8;
  std::vector<std::pair<std::int64_t, std::int64_t>> chosen(count);
  for (std::int64_t row = 0; count > 0 && row < outer * inner; ++row) {
    const std::int64_t before = row / inner, after = row % inner;
    const char* const source = Bytes(data) + (before * extent * inner + after) * size;
    const auto at = [&](std::int64_t i) {
      const std::int64_t found = key(source + i * inner * size);
      return std::make_pair(ascending ? found : ~found, i);
    };
    for (std::int64_t i = 0; i < count; ++i) chosen[i] = at(i);
    if (count < extent) std::make_heap(chosen.begin(), chosen.end());
    for (std::int64_t i = count; i < extent; ++i) {
      const auto other = at(i);
      // Of equal numbers the one before stays.
      if (other.first >= chosen.front().first) continue;
      std::pop_heap(chosen.begin(), chosen.end());
      chosen.back() = other;
      std::push_heap(chosen.begin(), chosen.end());
    }
    std::sort(chosen.begin(), chosen.end());
    for (std::int64_t i = 0; i < count; ++i) {
      const std::int64_t target = (before * count + i) * inner + after, from = chosen[i].second;
      std::memcpy(Bytes(values) + target * size, source + from * inner * size, size);
      if (indices->dtype.bits == 64) {
        reinterpret_cast<std::int64_t*>(Bytes(indices))[target] = from;
      } else {
        reinterpret_cast<std::int32_t*>(Bytes(indices))[target] = static_cast<std::int32_t>(from);
      }
    }
  }
}

auto ChooserOf(DLDataType type) {
  switch (type.code << 8 | type.bits) {
    case kDLFloat << 8 | 16:
      return Choose<FloatKey<std::uint16_t, 0x7c00>>;
    case kDLFloat << 8 | 32:
      return Choose<FloatKey<std::uint32_t, 0x7f800000>>;
    case kDLFloat << 8 | 64:
      return Choose<FloatKey<std::uint64_t, 0x7ff0000000000000>>;
    case kDLInt << 8 | 32:
      return Choose<IntegerKey<std::int32_t>>;
    case kDLInt << 8 | 64:
      return Choose<IntegerKey<std::int64_t>>;
    case kDLUInt << 8 | 64:
      return Choose<IntegerKey<std::uint64_t>>;
    default:
      TVM_FFI_THROW(TypeError) << "TopK compares no numbers of " << ffi::DLDataTypeToString(type);
  }
  TVM_FFI_UNREACHABLE();
}

// The arguments are those of TVM's "tvm.contrib.sort.topk"; all tensors are contiguous.
void TopK(DLTensor* data, DLTensor* values, DLTensor* indices, std::int64_t, std::int64_t axis,
          const ffi::String&, bool ascending) {
  if (axis < 0) axis += data->ndim;
  ChooserOf(data->dtype)(data, values, indices, axis, ascending);
}

TVM_FFI_STATIC_INIT_BLOCK() { ffi::reflection::GlobalDef().def("tvm_ios.top_k", TopK); }

}  // namespace

}  // namespace tvm_ios
