// A session: an executable with its buffers, ready to run.
#ifndef TVM_IOS_NATIVE_SESSION_H_
#define TVM_IOS_NATIVE_SESSION_H_

#include <atomic>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "device.h"
#include "model_session.h"
#include "shape_binding.h"

namespace tvm_ios {

class Session final : public ModelSession {
 public:
  explicit Session(const Executable& executable);
  // Of a program for a CPU with these kernels.
  Session(const Executable& executable, const std::vector<ffi::Function>& kernels,
          const ExecutorOptions& options);

  const std::vector<std::string>& input_names() const final { return input_names_; }
  const std::vector<std::string>& output_names() const final { return output_names_; }
  // Of an open program that of an input that was set, and of an output of the last run; otherwise
  // extents that are open are -1.
  BufferType InputType(std::size_t which) final;
  BufferType OutputType(std::size_t which) final;

  void SetInput(std::size_t which, ffi::TensorView value) final;
  ffi::Tensor GetInput(std::size_t which) final;
  ffi::Tensor GetOutput(std::size_t which) final;
  void GetOutput(std::size_t which, ffi::TensorView value) final;

  void BindState(std::size_t output, std::size_t input) final;
  void ResetStates() final;

  void Run() final;
  std::vector<double> Benchmark(std::int64_t number, std::int64_t repeat) final;
  std::vector<LaunchSpan> Profile() final;
  void Close() final { device_->Close(); }
  void Reserve() final;
  std::int64_t Workers() final { return workers_; }

 private:
  // Whose work a launch is.
  struct LaunchName {
    std::string unit;
    std::string kernel;
  };

  Session(const Executable& executable, std::unique_ptr<Device> device);

  using LaunchNames = std::vector<std::vector<LaunchName>>;
  static LaunchNames Launches(const Program& program, std::size_t choice);

  // An output that is an input in the next run.
  struct State {
    std::size_t output;
    std::size_t input;
    // Whether the memory of the two is exchanged: nobody else needs what is in them.
    bool exchanged;
    // Whether the input was set since the last run.
    bool given;
  };

  template <typename Call>
  auto Running(Call call);
  // What the shapes of the inputs make of the program; null if it is not open.
  const BoundShape* Settle();
  void Write(std::size_t input, const void* bytes);
  void CarryStates();
  // As InputType and OutputType, where nobody else is inside.
  BufferType TypeOfInput(std::size_t which) const;
  BufferType TypeOfOutput(std::size_t which) const;
  void RequireRan(std::size_t output) const;

  std::vector<Port> inputs_;
  std::vector<Port> outputs_;
  std::vector<std::string> input_names_;
  std::vector<std::string> output_names_;
  std::unique_ptr<Device> device_;
  // Of an open program.
  std::unique_ptr<ShapeBinding> binding_;
  // The shape of each input, and whether it is known; and the values of the last run.
  std::vector<std::vector<std::int64_t>> shapes_;
  std::vector<bool> shaped_;
  std::vector<std::int64_t> values_;
  // Of each choice of lanes: lane by lane, as the spans of a profile. And the choice of the last run.
  std::vector<LaunchNames> launches_;
  std::size_t choice_ = 0;
  std::int64_t workers_;
  // Of the program's buffers, whether each is an output alone.
  std::vector<bool> outputs_alone_;
  std::vector<State> states_;
  std::set<std::string> unset_;
  bool ran_ = false;
  std::atomic<bool> inside_{false};
};

// Opens the executable in a folder, which sentences call `name`; with `one_lane` all of a program
// for a CPU runs on one lane. Throws an ffi::Error of kind ExecutableError.
std::unique_ptr<Session> OpenSession(const std::string& path, const std::string& name,
                                     bool one_lane = false);

}  // namespace tvm_ios

#endif  // TVM_IOS_NATIVE_SESSION_H_
