#include "session.h"

#include <utility>

#include "exclusive.h"
#include "one_lane.h"

namespace tvm_ios {

namespace {

std::vector<std::string> Names(const std::vector<Port>& ports) {
  std::vector<std::string> names;
  for (const Port& port : ports) names.push_back(port.name);
  return names;
}

ffi::Tensor NewTensor(const BufferType& type) { return TensorIn(Allocate(type.Bytes()), 0, type); }

}  // namespace

std::vector<std::vector<Session::LaunchName>> Session::Launches(const Program& program) {
  std::vector<std::vector<LaunchName>> launches;
  for (const std::vector<Item>& lane : DecodeLanes(program)) {
    std::vector<LaunchName>& names = launches.emplace_back();
    for (const Item& item : lane) {
      if (item.kernel >= 0) names.push_back({program.units[item.unit], program.kernels[item.kernel]});
    }
  }
  return launches;
}

Session::Session(const Executable& executable)
    : inputs_(executable.inputs),
      outputs_(executable.outputs),
      input_names_(Names(inputs_)),
      output_names_(Names(outputs_)),
      device_(executable.arch.empty() ? MakeHost(executable) : MakeCuda(executable)),
      launches_(Launches(executable.program)),
      workers_(executable.workers),
      unset_(input_names_.begin(), input_names_.end()) {}

void Session::SetInput(std::size_t which, ffi::TensorView value) {
  const Exclusive exclusive(&inside_);
  const Port& port = inputs_[which];
  RequireType("input", port.name, port.type, value);
  device_->Write(port.buffer, FirstByte(value));
  unset_.erase(port.name);
}

ffi::Tensor Session::GetInput(std::size_t which) {
  const Exclusive exclusive(&inside_);
  ffi::Tensor value = NewTensor(inputs_[which].type);
  device_->Read(inputs_[which].buffer, FirstByte(value));
  return value;
}

ffi::Tensor Session::GetOutput(std::size_t which) {
  ffi::Tensor value = NewTensor(outputs_[which].type);
  GetOutput(which, value);
  return value;
}

void Session::GetOutput(std::size_t which, ffi::TensorView value) {
  const Exclusive exclusive(&inside_);
  const Port& port = outputs_[which];
  if (!ran_) Misuse("output '" + port.name + "' is not known before a complete run");
  RequireType("output", port.name, port.type, value);
  device_->Read(port.buffer, FirstByte(value));
}

template <typename Call>
auto Session::Running(Call call) {
  const Exclusive exclusive(&inside_);
  if (!unset_.empty()) Misuse("input '" + *unset_.begin() + "' was never set");
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
  if (number < 1 || repeat < 1) Misuse("a benchmark needs at least one run and one sample");
  return Running([&] { return device_->Benchmark(number, repeat); });
}

std::vector<LaunchSpan> Session::Profile() {
  const std::vector<std::vector<Span>> spans = Running([this] { return device_->Profile(); });
  std::vector<LaunchSpan> launches;
  for (std::size_t lane = 0; lane < spans.size(); ++lane) {
    for (std::size_t launch = 0; launch < spans[lane].size(); ++launch) {
      const LaunchName& name = launches_[lane][launch];
      const Span& span = spans[lane][launch];
      launches.push_back({static_cast<std::int64_t>(lane), static_cast<std::int64_t>(launch),
                          name.unit, name.kernel, span.begin, span.end, span.held_up,
                          span.runner});
    }
  }
  return launches;
}

std::unique_ptr<Session> OpenSession(const std::string& path, const std::string& name,
                                     bool one_lane) {
  return WithOneSentence(name, [&] {
    Executable executable = OpenExecutable(path, name);
    if (one_lane && executable.arch.empty()) executable.program = OnOneLane(executable.program);
    try {
      return std::make_unique<Session>(executable);
    } catch (const ffi::Error& error) {
      // The program names what does not exist, or would wait for ever.
      if (error.kind() != "ValueError") throw;
      throw Misfit(error.message());
    }
  });
}

}  // namespace tvm_ios
