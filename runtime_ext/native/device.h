// What a session runs on: the buffers of an executable in some memory, and an executor over them.
#ifndef TVM_IOS_NATIVE_DEVICE_H_
#define TVM_IOS_NATIVE_DEVICE_H_

#include <memory>
#include <vector>

#include "executable.h"
#include "executor.h"
#include "shape_binding.h"

namespace tvm_ios {

class Device {
 public:
  virtual ~Device() = default;

  // Of an open program, which a GPU does not run: makes room for an input of this shape, which is then
  // written; and lets runs be of a shape. These throw an ffi::Error of kind ExecutableError if there
  // is no memory for it.
  virtual void Resize(std::size_t, const std::vector<std::int64_t>&) {}
  virtual void Bind(const BoundShape&) {}
  // Takes the memory of the largest shape at once; inputs and outputs keep what is in them.
  virtual void Reserve(const BoundShape&) {}

  // Copies all bytes of a buffer in or out.
  virtual void Write(std::size_t buffer, const void* bytes) = 0;
  virtual void Read(std::size_t buffer, void* bytes) = 0;
  // Lets the second buffer hold what the first one does, which is lost there. Both are whole, outside
  // the arena and of one type.
  virtual void Carry(std::size_t source, std::size_t target) = 0;

  // As Executor's.
  virtual void Run() = 0;
  virtual std::vector<double> Benchmark(std::int64_t number, std::int64_t repeat) = 0;
  virtual std::vector<std::vector<Span>> Profile() = 0;
  virtual void Close() = 0;
};

// Threads of this machine. Throws an ffi::Error of kind ExecutableError if the kernels cannot be
// loaded.
std::unique_ptr<Device> MakeHost(const Executable& executable);
// The same with these kernels.
std::unique_ptr<Device> MakeHost(const Executable& executable,
                                 const std::vector<ffi::Function>& kernels,
                                 const ExecutorOptions& options);

// Streams of the first GPU. Throws an ffi::Error of kind ExecutableError if there is none that the
// kernels run on, and a Misfit if the program is none for a GPU or the kernels are none.
std::unique_ptr<Device> MakeCuda(const Executable& executable);

}  // namespace tvm_ios

#endif  // TVM_IOS_NATIVE_DEVICE_H_
