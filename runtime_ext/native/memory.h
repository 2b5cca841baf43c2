// Memory of buffers: aligned for the kernels.
#ifndef TVM_IOS_NATIVE_MEMORY_H_
#define TVM_IOS_NATIVE_MEMORY_H_

#include <tvm/ffi/tvm_ffi.h>

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace tvm_ios {

namespace ffi = tvm::ffi;

// Kernels are compiled for vectors of this many bytes; it is a cache line too.
constexpr std::size_t kAlignment = 64;
// Kernels may read so many bytes behind the end of a buffer, whatever is there.
constexpr std::size_t kSlack = kAlignment;

// Physical shape and type of a buffer.
struct BufferType {
  std::vector<std::int64_t> shape;
  std::string dtype;

  bool operator==(const BufferType& other) const {
    return shape == other.shape && dtype == other.dtype;
  }
  // As in messages: float32[1, 3].
  std::string Name() const;
  // Throws a Misfit if it is no type of numbers, or has more bytes than can be counted.
  DLDataType Element() const;
  std::size_t Bytes() const;
};

// Bytes that live as long as any tensor in them.
using Block = std::shared_ptr<char>;

// Zeros, not garbage: old bits may be denormal numbers, which take a hundred times longer. There is
// slack behind them.
// Throws an ffi::Error if there is not as much memory.
Block Allocate(std::size_t bytes);

ffi::Tensor TensorIn(const Block& block, std::size_t first_byte, const BufferType& type);

// Lets two tensors have each other's memory, which both keep; whoever holds them finds it there.
void Exchange(const ffi::Tensor& one, const ffi::Tensor& other);

// A file's bytes as long as this object lives; throws a std::system_error.
class MappedFile {
 public:
  explicit MappedFile(const std::string& path);
  ~MappedFile();
  MappedFile(const MappedFile&) = delete;
  MappedFile& operator=(const MappedFile&) = delete;

  std::string_view bytes() const { return {data_, size_}; }

 private:
  const char* data_ = nullptr;
  std::size_t size_ = 0;
};

}  // namespace tvm_ios

#endif  // TVM_IOS_NATIVE_MEMORY_H_
