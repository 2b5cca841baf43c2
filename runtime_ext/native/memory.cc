#include "memory.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <system_error>
#include <utility>

#include "json_text.h"

namespace tvm_ios {

namespace {

constexpr std::size_t kHugePage = std::size_t{1} << 21;
// Rounding up wastes at most a half of the last one.
constexpr std::size_t kFewestInHugePages = 2;

// Points a tensor into a block and keeps the block.
struct Place {
  Block block;
  std::size_t first_byte;
  void AllocData(DLTensor* tensor) { tensor->data = block.get() + first_byte; }
  void FreeData(DLTensor*) { block.reset(); }
};

}  // namespace

std::string BufferType::Name() const {
  std::string name = dtype + "[";
  for (std::size_t i = 0; i < shape.size(); ++i) {
    name += (i == 0 ? "" : ", ") + std::to_string(shape[i]);
  }
  return name + "]";
}

DLDataType BufferType::Element() const {
  // TVM knows vectors, handles and fractions of bytes too, which no buffer is made of.
  static constexpr std::array<std::string_view, 13> kTypes = {
      "bool",  "int8",   "int16",  "int32",    "int64",   "uint8",   "uint16",
      "uint32", "uint64", "float16", "bfloat16", "float32", "float64"};
  if (std::find(kTypes.begin(), kTypes.end(), dtype) == kTypes.end()) {
    throw Misfit("a buffer of type '" + dtype + "' cannot be allocated");
  }
  return ffi::StringToDLDataType(dtype);
}

std::size_t BufferType::Bytes() const {
  std::size_t bytes = Element().bits / 8;
  for (std::int64_t extent : shape) {
    if (__builtin_mul_overflow(bytes, static_cast<std::size_t>(extent), &bytes)) {
      throw Misfit("a buffer of " + Name() + " cannot be allocated");
    }
  }
  return bytes;
}

Block Allocate(std::size_t bytes) {
  // Large tensors in small pages take up to a third longer, because their addresses do not fit the
  // tables of the processor.
  const std::size_t alignment = bytes < kFewestInHugePages * kHugePage ? kAlignment : kHugePage;
  const std::size_t whole = (bytes + kSlack + alignment - 1) / alignment * alignment;
  void* const memory = whole < bytes ? nullptr : std::aligned_alloc(alignment, whole);
  if (memory == nullptr) {
    throw ffi::Error("ExecutableError",
                     "a buffer of " + std::to_string(bytes) + " bytes cannot be allocated", "");
  }
  // A system that has none goes on with small ones.
  if (alignment == kHugePage) madvise(memory, whole, MADV_HUGEPAGE);
  std::memset(memory, 0, whole);
  return Block(static_cast<char*>(memory), [](char* block) { std::free(block); });
}

ffi::Tensor TensorIn(const Block& block, std::size_t first_byte, const BufferType& type) {
  return ffi::Tensor::FromNDAlloc(Place{block, first_byte},
                                  ffi::ShapeView(type.shape.data(), type.shape.size()),
                                  type.Element(), DLDevice{kDLCPU, 0});
}

void Exchange(const ffi::Tensor& one, const ffi::Tensor& other) {
  std::swap(ffi::AnyView(one).cast<DLTensor*>()->data, ffi::AnyView(other).cast<DLTensor*>()->data);
}

MappedFile::MappedFile(const std::string& path) {
  const int file = open(path.c_str(), O_RDONLY | O_CLOEXEC);
  const auto failed = [&] {
    const std::system_error error(errno, std::generic_category(), path);
    if (file >= 0) close(file);
    return error;
  };
  struct stat about;
  if (file < 0 || fstat(file, &about) != 0) throw failed();
  size_ = static_cast<std::size_t>(about.st_size);
  if (size_ != 0) {
    void* const mapped = mmap(nullptr, size_, PROT_READ, MAP_PRIVATE, file, 0);
    if (mapped == MAP_FAILED) throw failed();
    data_ = static_cast<const char*>(mapped);
  }
  close(file);
}

MappedFile::~MappedFile() {
  if (data_ != nullptr) munmap(const_cast<char*>(data_), size_);
}

}  // namespace tvm_ios
