// NVIDIA's driver, looked for when it is needed: building takes no header or library of CUDA.
#ifndef TVM_IOS_NATIVE_CUDA_DRIVER_H_
#define TVM_IOS_NATIVE_CUDA_DRIVER_H_

#include <sys/types.h>
#include <tvm/ffi/tvm_ffi.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

namespace tvm_ios::cuda {

// An address on the device.
using Address = std::uint64_t;
// A stream, an event, a module, a function, a graph.
using Handle = void*;

// As in cuda.h.
struct LaunchAttribute {
  int id;
  int padding;
  int value[16];
};
struct LaunchConfig {
  unsigned grid[3];
  unsigned block[3];
  unsigned shared_bytes;
  Handle stream;
  LaunchAttribute* attributes;
  unsigned count;
};

// The functions that are used, under the names without "cu"; their signatures are those of cuda.h.
#define TVM_IOS_CUDA_FUNCTIONS(F)                                                               \
  F(Init, "cuInit", unsigned)                                                                   \
  F(GetErrorName, "cuGetErrorName", int, const char**)                                          \
  F(GetErrorString, "cuGetErrorString", int, const char**)                                      \
  F(DeviceGet, "cuDeviceGet", int*, int)                                                        \
  F(DeviceGetName, "cuDeviceGetName", char*, int, int)                                          \
  F(DeviceGetAttribute, "cuDeviceGetAttribute", int*, int, int)                                 \
  F(DevicePrimaryCtxRetain, "cuDevicePrimaryCtxRetain", Handle*, int)                           \
  F(CtxSetCurrent, "cuCtxSetCurrent", Handle)                                                   \
  F(MemAlloc, "cuMemAlloc_v2", Address*, std::size_t)                                           \
  F(MemFree, "cuMemFree_v2", Address)                                                           \
  F(MemcpyHtoD, "cuMemcpyHtoD_v2", Address, const void*, std::size_t)                           \
  F(MemcpyDtoH, "cuMemcpyDtoH_v2", void*, Address, std::size_t)                                 \
  F(MemcpyDtoDAsync, "cuMemcpyDtoDAsync_v2", Address, Address, std::size_t, Handle)             \
  F(MemsetD8Async, "cuMemsetD8Async", Address, unsigned char, std::size_t, Handle)              \
  F(ModuleLoadData, "cuModuleLoadData", Handle*, const void*)                                   \
  F(ModuleUnload, "cuModuleUnload", Handle)                                                     \
  F(ModuleGetFunction, "cuModuleGetFunction", Handle*, Handle, const char*)                     \
  F(FuncSetAttribute, "cuFuncSetAttribute", Handle, int, int)                                   \
  F(OccupancyMaxActiveBlocksPerMultiprocessor, "cuOccupancyMaxActiveBlocksPerMultiprocessor",   \
    int*, Handle, int, std::size_t)                                                             \
  F(LaunchKernel, "cuLaunchKernel", Handle, unsigned, unsigned, unsigned, unsigned, unsigned,   \
    unsigned, unsigned, Handle, void**, void**)                                                 \
  F(LaunchCooperativeKernel, "cuLaunchCooperativeKernel", Handle, unsigned, unsigned, unsigned,  \
    unsigned, unsigned, unsigned, unsigned, Handle, void**)                                     \
  F(StreamCreate, "cuStreamCreate", Handle*, unsigned)                                          \
  F(StreamDestroy, "cuStreamDestroy_v2", Handle)                                                \
  F(StreamSynchronize, "cuStreamSynchronize", Handle)                                           \
  F(StreamWaitEvent, "cuStreamWaitEvent", Handle, Handle, unsigned)                             \
  F(StreamBeginCapture, "cuStreamBeginCapture_v2", Handle, int)                                 \
  F(StreamEndCapture, "cuStreamEndCapture", Handle, Handle*)                                    \
  F(EventCreate, "cuEventCreate", Handle*, unsigned)                                            \
  F(EventDestroy, "cuEventDestroy_v2", Handle)                                                  \
  F(EventRecord, "cuEventRecord", Handle, Handle)                                               \
  F(EventElapsedTime, "cuEventElapsedTime",    float*, Handle, Handle)                          \
  F(GraphInstantiate, "cuGraphInstantiateWithFlags", Handle*, Handle, unsigned long long)       \
  F(GraphDestroy, "cuGraphDestroy", Handle)                                                     \
  F(GraphLaunch, "cuGraphLaunch", Handle, Handle)                                               \
  F(GraphExecDestroy, "cuGraphExecDestroy", Handle)

// Those that programs run without: one prepares a graph, profiles need another, and the third
// launches kernels early.
#define TVM_IOS_CUDA_OPTIONAL_FUNCTIONS(F)                                                      \
  F(GraphUpload, "cuGraphUpload", Handle, Handle)                                               \
  F(EventRecordWithFlags, "cuEventRecordWithFlags", Handle, Handle, unsigned)                   \
  F(LaunchKernelEx, "cuLaunchKernelEx", const LaunchConfig*, Handle, void**, void**)

struct Driver {
#define TVM_IOS_CUDA_MEMBER(name, symbol, ...) int (*name)(__VA_ARGS__);
  TVM_IOS_CUDA_FUNCTIONS(TVM_IOS_CUDA_MEMBER)
  // Null where the driver is too old for them.
  TVM_IOS_CUDA_OPTIONAL_FUNCTIONS(TVM_IOS_CUDA_MEMBER)
#undef TVM_IOS_CUDA_MEMBER
};

// The driver's functions, ready for use. Throws an ffi::Error of kind ExecutableError if there is
// no driver, or no device.
const Driver& LoadDriver();

// A call that was refused, an error of kind CudaError: the function's name and the driver's words.
class Failure : public tvm::ffi::Error {
 public:
  Failure(const char* function, int status);
};

inline void Check(const char* function, int status) {
  if (status != 0) throw Failure(function, status);
}
// Calls a function of the driver and throws a Failure unless it succeeds.
#define TVM_IOS_CUDA(name, ...) \
  ::tvm_ios::cuda::Check("cu" #name, ::tvm_ios::cuda::LoadDriver().name(__VA_ARGS__))

// The first device and its primary context, which other libraries of the process use too.
struct Gpu {
  std::string name;
  int major;
  int minor;
  Handle context;
  pid_t process;

  // Makes it the calling thread's device. Throws an ffi::Error of kind ForkError in a process that
  // was forked from the one that opened it.
  void Use() const;
};
const Gpu& OpenGpu();

// Whether machine code of an architecture such as sm_90 runs on a device.
bool RunsOn(const std::string& arch, int major, int minor);

// A handle that is released when its last owner is destroyed.
std::shared_ptr<void> Owned(Handle handle, int (*release)(Handle));
// Memory of the device, aligned to 256 bytes.
std::shared_ptr<const Address> AllocateOn(const Gpu& gpu, std::size_t bytes);

}  // namespace tvm_ios::cuda

#endif  // TVM_IOS_NATIVE_CUDA_DRIVER_H_
