#include "session.h"

#include <cstring>
#include <utility>

namespace tvm_ios {

namespace {

[[noreturn]] void Misused(const std::string& sentence) {
  throw ffi::Error("SessionError", sentence, "");
}

std::vector<ffi::Tensor> MakeBuffers(const Executable& executable) {
  const std::vector<Buffer>& buffers = executable.program.buffers;
  const Block arena = executable.memory ? Allocate(executable.memory->bytes) : Block();
  std::vector<ffi::Tensor> wholes;
  for (std::size_t i = 0; i < buffers.size(); ++i) {
    const BufferType& type = buffers[i].type;
    if (buffers[i].whole != i) {
      wholes.emplace_back();
    } else if (buffers[i].role == "constant") {
      wholes.push_back(TensorIn(executable.constants.at(i), 0, type));
    } else if (executable.memory && buffers[i].planned(i)) {
      wholes.push_back(TensorIn(arena, executable.memory->offsets[i], type));
    } else {
      wholes.push_back(TensorIn(Allocate(type.Bytes()), 0, type));
    }
  }
  // Kernels of a part are given the whole.
  std::vector<ffi::Tensor> tensors;
  for (const Buffer& buffer : buffers) tensors.push_back(wholes[buffer.whole]);
  return tensors;
}

ffi::Array<ffi::String> Strings(const std::vector<std::string>& texts) {
  ffi::Array<ffi::String> strings;
  for (const std::string& text : texts) strings.push_back(text);
  return strings;
}

std::unique_ptr<Plan> MakePlan(const Executable& executable,
                               const std::vector<ffi::Tensor>& buffers) {
  const Program& program = executable.program;
  ffi::Array<ffi::Array<std::int64_t>> lanes;
  for (const auto& lane : program.lanes) {
    lanes.push_back(ffi::Array<std::int64_t>(lane.begin(), lane.end()));
  }
  return std::make_unique<Plan>(executable.kernels, Strings(program.kernels),
                                Strings(program.units),
                                ffi::Array<ffi::Tensor>(buffers.begin(), buffers.end()), lanes);
}

// Checks that a tensor can be copied to or from a port's buffer as it lies in memory.
void RequireType(const std::string& what, const Port& port, const ffi::TensorView& value) {
  const BufferType given{{value.shape().begin(), value.shape().end()},
                         ffi::DLDataTypeToString(value.dtype())};
  if (given.shape != port.type.shape || value.dtype() != port.type.Element()) {
    Misused(what + " '" + port.name + "' is " + port.type.Name() + " and the tensor is " +
            given.Name());
  }
  if (value.device().device_type != kDLCPU || !value.IsContiguous()) {
    Misused(what + " '" + port.name + "' needs a contiguous tensor in the memory of the CPU");
  }
}

char* FirstByte(const ffi::TensorView& value) {
  return static_cast<char*>(value.data_ptr()) + value.byte_offset();
}

}  // namespace

// One caller inside; others are refused instead of made to wait.
class Session::Exclusive {
 public:
  explicit Exclusive(std::atomic<bool>* inside) : inside_(inside) {
    if (inside_->exchange(true, std::memory_order_acquire)) {
      Misused("this session is in use by another thread; make one session a thread");
    }
  }
  ~Exclusive() { inside_->store(false, std::memory_order_release); }

 private:
  std::atomic<bool>* inside_;
};

Session::Session(const Executable& executable)
    : inputs_(executable.inputs),
      outputs_(executable.outputs),
      buffers_(MakeBuffers(executable)),
      executor_(Executor::Make(MakePlan(executable, buffers_), {})) {
  for (const Port& port : inputs_) unset_.insert(port.name);
}

ffi::Tensor Session::NewTensor(const Port& port) const {
  return TensorIn(Allocate(port.type.Bytes()), 0, port.type);
}

void Session::SetInput(std::size_t which, ffi::TensorView value) {
  const Exclusive exclusive(&inside_);
  const Port& port = inputs_[which];
  RequireType("input", port, value);
  std::memcpy(buffers_[port.buffer].data_ptr(), FirstByte(value), port.type.Bytes());
  unset_.erase(port.name);
}

void Session::GetInput(std::size_t which, ffi::TensorView value) {
  const Exclusive exclusive(&inside_);
  const Port& port = inputs_[which];
  RequireType("input", port, value);
  std::memcpy(FirstByte(value), buffers_[port.buffer].data_ptr(), port.type.Bytes());
}

void Session::GetOutput(std::size_t which, ffi::TensorView value) {
  const Exclusive exclusive(&inside_);
  const Port& port = outputs_[which];
  if (!ran_) Misused("output '" + port.name + "' is not known before a complete run");
  RequireType("output", port, value);
  std::memcpy(FirstByte(value), buffers_[port.buffer].data_ptr(), port.type.Bytes());
}

template <typename Call>
auto Session::Running(Call call) {
  const Exclusive exclusive(&inside_);
  if (!unset_.empty()) Misused("input '" + *unset_.begin() + "' was never set");
  ran_ = false;
  auto result = call();
  ran_ = true;
  return result;
}

void Session::Run() {
  Running([this] {
    executor_->Run();
    return true;
  });
}

std::vector<double> Session::Benchmark(std::int64_t number, std::int64_t repeat) {
  return Running([&] { return executor_->Benchmark(number, repeat); });
}

std::vector<std::vector<Span>> Session::Profile() {
  return Running([this] { return executor_->Profile(); });
}

}  // namespace tvm_ios
