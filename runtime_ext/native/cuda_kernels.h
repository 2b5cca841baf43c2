// The kernels of an executable for a GPU: kernels.safetensors, as launchable.py writes it.
#ifndef TVM_IOS_NATIVE_CUDA_KERNELS_H_
#define TVM_IOS_NATIVE_CUDA_KERNELS_H_

#include <array>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace tvm_ios {

// All parameters of a kernel are addresses of buffers.
struct CudaKernel {
  std::string entry;
  std::array<unsigned, 3> grid;
  std::array<unsigned, 3> block;
  unsigned shared_bytes;
  // Arguments whose buffers are set to zero before each launch.
  std::vector<std::int64_t> cleared;
  // Whether its blocks wait for each other, so that all of them have to run at once.
  bool Cooperative() const { return !cleared.empty(); }
  // One string for all kernels of a module.
  std::shared_ptr<const std::string> cubin;
  // Whether it waits by itself until the launches before it have ended, and may be launched earlier.
  bool early;
};

// The kernels of these symbols, in order. Throws a Misfit, also if they are for another
// architecture.
std::vector<CudaKernel> ReadCudaKernels(std::string_view file, const std::string& arch,
                                        const std::vector<std::string>& symbols);

}  // namespace tvm_ios

#endif  // TVM_IOS_NATIVE_CUDA_KERNELS_H_
