#include "session.h"

#include <utility>

namespace tvm_ios {

namespace {

[[noreturn]] void Misused(const std::string& sentence) {
  throw ffi::Error("SessionError", sentence, "");
}

std::vector<std::vector<LaunchName>> Launches(const Program& program) {
  std::vector<std::vector<LaunchName>> launches;
  for (const std::vector<Item>& lane : DecodeLanes(program)) {
    std::vector<LaunchName>& names = launches.emplace_back();
    for (const Item& item : lane) {
      if (item.kernel >= 0) names.push_back({program.units[item.unit], program.kernels[item.kernel]});
    }
  }
  return launches;
}

// Checks that a tensor can be copied to or from a port's buffer as it lies in memory.
void RequireType(const std::string& what, const Port& port, const ffi::TensorView& value) {
  const BufferType type{{value.shape().begin(), value.shape().end()},
                         ffi::DLDataTypeToString(value.dtype())};
  if (type.shape != port.type.shape || value.dtype() != port.type.Element()) {
    Misused(what + " '" + port.name + "' is " + port.type.Name() + " and the tensor is " +
            type.Name());
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
      device_(executable.arch.empty() ? MakeHost(executable) : MakeCuda(executable)),
      launches_(Launches(executable.program)) {
  for (const Port& port : inputs_) unset_.insert(port.name);
}

ffi::Tensor Session::NewTensor(const Port& port) const {
  return TensorIn(Allocate(port.type.Bytes()), 0, port.type);
}

void Session::SetInput(std::size_t which, ffi::TensorView value) {
  const Exclusive exclusive(&inside_);
  const Port& port = inputs_[which];
  RequireType("input", port, value);
  device_->Write(port.buffer, FirstByte(value));
  unset_.erase(port.name);
}

void Session::GetInput(std::size_t which, ffi::TensorView value) {
  const Exclusive exclusive(&inside_);
  const Port& port = inputs_[which];
  RequireType("input", port, value);
  device_->Read(port.buffer, FirstByte(value));
}

void Session::GetOutput(std::size_t which, ffi::TensorView value) {
  const Exclusive exclusive(&inside_);
  const Port& port = outputs_[which];
  if (!ran_) Misused("output '" + port.name + "' is not known before a complete run");
  RequireType("output", port, value);
  device_->Read(port.buffer, FirstByte(value));
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
    device_->Run();
    return true;
  });
}

std::vector<double> Session::Benchmark(std::int64_t number, std::int64_t repeat) {
  return Running([&] { return device_->Benchmark(number, repeat); });
}

std::vector<std::vector<Span>> Session::Profile() {
  return Running([this] { return device_->Profile(); });
}

}  // namespace tvm_ios
