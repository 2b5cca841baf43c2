// What a module runs: a session of one executable, or of a deployment.
#ifndef TVM_IOS_NATIVE_MODEL_SESSION_H_
#define TVM_IOS_NATIVE_MODEL_SESSION_H_

#include <tvm/ffi/tvm_ffi.h>

#include <cstdint>
#include <string>
#include <vector>

#include "memory.h"

namespace tvm_ios {

// When a launch ran, and whose work it is.
struct LaunchSpan {
  std::int64_t lane;
  // Which of the lane's launches.
  std::int64_t launch;
  std::string unit;
  std::string kernel;
  // Nanoseconds since the run began.
  std::int64_t begin;
  std::int64_t end;
  // How long of these the system ran something else, and the lane whose thread ran it, or -1.
  std::int64_t held_up;
  std::int64_t runner;
};

// Not re-entrant: a second caller is refused with an ffi::Error of kind SessionError, as any
// other wrong use is.
class ModelSession {
 public:
  virtual ~ModelSession() = default;

  virtual const std::vector<std::string>& input_names() const = 0;
  virtual const std::vector<std::string>& output_names() const = 0;
  // An extent that is not known yet is -1.
  virtual BufferType InputType(std::size_t which) = 0;
  virtual BufferType OutputType(std::size_t which) = 0;

  // Copies in or out; given tensors are contiguous and in the memory of the CPU.
  virtual void SetInput(std::size_t which, ffi::TensorView value) = 0;
  virtual ffi::Tensor GetInput(std::size_t which) = 0;
  virtual ffi::Tensor GetOutput(std::size_t which) = 0;
  virtual void GetOutput(std::size_t which, ffi::TensorView value) = 0;

  // Lets an output be an input in the next run, unless that is set before it; at first zeros. Misuse
  // if they differ in shape or type, or the input is another output's state.
  virtual void BindState(std::size_t output, std::size_t input) = 0;
  // Makes all states zeros; misuse if there are none.
  virtual void ResetStates() = 0;

  // These throw as Executor's do; a failed run leaves no outputs.
  virtual void Run() = 0;
  virtual std::vector<double> Benchmark(std::int64_t number, std::int64_t repeat) = 0;
  virtual std::vector<LaunchSpan> Profile() = 0;
  virtual void Close() = 0;
  // Takes at once the memory that any shape of a program for a range may need; others have it.
  // Throws an ffi::Error of kind ExecutableError if there is not as much.
  virtual void Reserve() = 0;

  // How many requests run at once, if nobody says: as many as it was measured to serve the most
  // requests a second with, or else one for each lane; on a GPU one.
  virtual std::int64_t Workers() = 0;
};

// Throws an ffi::Error of kind SessionError.
[[noreturn]] void Misuse(const std::string& sentence);

// The type of a given tensor; misuse if it cannot be copied to or from as it lies in memory.
// `what` and `name` tell the input or output in sentences.
BufferType HostTensorType(const std::string& what, const std::string& name,
                          const ffi::TensorView& value);
char* FirstByte(const ffi::TensorView& value);

// Misuse if a given tensor is not of an input's or output's type.
void RequireType(const std::string& what, const std::string& name, const BufferType& type,
                 const ffi::TensorView& value);

}  // namespace tvm_ios

#endif  // TVM_IOS_NATIVE_MODEL_SESSION_H_
