// A session: an executable with its buffers, ready to run.
#ifndef TVM_IOS_NATIVE_SESSION_H_
#define TVM_IOS_NATIVE_SESSION_H_

#include <atomic>
#include <set>
#include <string>
#include <vector>

#include "device.h"

namespace tvm_ios {

// Whose work a launch is.
struct LaunchName {
  std::string unit;
  std::string kernel;
};

// Not re-entrant: a second caller is refused with an ffi::Error of kind SessionError, as any
// other wrong use is.
class Session {
 public:
  explicit Session(const Executable& executable);

  const std::vector<Port>& inputs() const { return inputs_; }
  const std::vector<Port>& outputs() const { return outputs_; }
  // Lane by lane, as the spans of a profile.
  const std::vector<std::vector<LaunchName>>& launches() const { return launches_; }

  // Copies in or out; contiguous tensors in the memory of the CPU, of the port's type.
  void SetInput(std::size_t which, ffi::TensorView value);
  void GetInput(std::size_t which, ffi::TensorView value);
  void GetOutput(std::size_t which, ffi::TensorView value);
  ffi::Tensor NewTensor(const Port& port) const;

  // These throw as Executor's do; a failed run leaves no outputs.
  void Run();
  std::vector<double> Benchmark(std::int64_t number, std::int64_t repeat);
  std::vector<std::vector<Span>> Profile();
  void Close() { device_->Close(); }

 private:
  class Exclusive;

  template <typename Call>
  auto Running(Call call);

  std::vector<Port> inputs_;
  std::vector<Port> outputs_;
  std::unique_ptr<Device> device_;
  std::vector<std::vector<LaunchName>> launches_;
  std::set<std::string> unset_;
  bool ran_ = false;
  std::atomic<bool> inside_{false};
};

}  // namespace tvm_ios

#endif  // TVM_IOS_NATIVE_SESSION_H_
