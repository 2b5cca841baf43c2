// Tensors in the memory of the CPU, for the examples.
#ifndef TVM_IOS_EXAMPLES_TENSORS_H_
#define TVM_IOS_EXAMPLES_TENSORS_H_

#include <tvm/ffi/container/tensor.h>

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <ios>
#include <new>
#include <random>
#include <stdexcept>
#include <string>

namespace ffi = tvm::ffi;

struct Heap {
  void AllocData(DLTensor* tensor) {
    tensor->data = std::calloc(std::max<std::size_t>(ffi::GetDataSize(*tensor), 1), 1);
    if (tensor->data == nullptr) throw std::bad_alloc();
  }
  void FreeData(DLTensor* tensor) { std::free(tensor->data); }
};

inline ffi::Tensor Zeros(const ffi::Shape& shape, const ffi::String& dtype) {
  return ffi::Tensor::FromNDAlloc(Heap(), shape, ffi::StringToDLDataType(dtype),
                                  DLDevice{kDLCPU, 0});
}

inline std::streamsize Bytes(const ffi::Tensor& tensor) {
  return static_cast<std::streamsize>(ffi::GetDataSize(tensor.numel(), tensor.dtype()));
}

inline bool IsFloat32(const ffi::Tensor& tensor) {
  return tensor.dtype().code == kDLFloat && tensor.dtype().bits == 32;
}

inline void FillRandom(const ffi::Tensor& tensor, unsigned seed = 0) {
  if (!IsFloat32(tensor)) return;
  std::mt19937 generator(seed);
  std::normal_distribution<float> normal;
  float* const data = static_cast<float*>(tensor.data_ptr());
  std::generate(data, data + tensor.numel(), [&] { return normal(generator); });
}

inline void WriteRaw(const std::string& path, const ffi::Tensor& tensor) {
  std::ofstream file(path, std::ios::binary);
  file.write(static_cast<const char*>(tensor.data_ptr()), Bytes(tensor));
  if (!file.flush()) throw std::runtime_error("cannot write " + path);
}

#endif  // TVM_IOS_EXAMPLES_TENSORS_H_
