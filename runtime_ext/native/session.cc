#include "session.h"

#include <algorithm>
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

std::vector<bool> OutputsAlone(const std::vector<Buffer>& buffers) {
  std::vector<bool> alone;
  for (std::size_t i = 0; i < buffers.size(); ++i) {
    alone.push_back(buffers[i].role == "output" && buffers[i].whole == i);
  }
  return alone;
}

bool IsOpenType(const BufferType& type) {
  return std::any_of(type.shape.begin(), type.shape.end(), IsOpen);
}

std::unique_ptr<ShapeBinding> MakeBinding(const Executable& executable) {
  if (!executable.program.expressions.open()) return nullptr;
  std::vector<ShapedInput> inputs;
  for (const Port& port : executable.inputs) inputs.push_back({port.name, port.type});
  return std::make_unique<ShapeBinding>(executable.program, executable.memory, std::move(inputs));
}

ffi::Tensor NewTensor(const BufferType& type) { return TensorIn(Allocate(type.Bytes()), 0, type); }

}  // namespace

Session::LaunchNames Session::Launches(const Program& program, std::size_t choice) {
  LaunchNames launches;
  for (const std::vector<Item>& lane : DecodeLanes(program, choice)) {
    std::vector<LaunchName>& names = launches.emplace_back();
    for (const Item& item : lane) {
      if (!item.IsWait()) names.push_back({program.units[item.unit], program.kernels[item.kernel]});
    }
  }
  return launches;
}

Session::Session(const Executable& executable)
    : Session(executable, executable.arch.empty() ? MakeHost(executable) : MakeCuda(executable)) {}

Session::Session(const Executable& executable, const std::vector<ffi::Function>& kernels,
                 const ExecutorOptions& options)
    : Session(executable, MakeHost(executable, kernels, options)) {}

Session::Session(const Executable& executable, std::unique_ptr<Device> device)
    : inputs_(executable.inputs),
      outputs_(executable.outputs),
      input_names_(Names(inputs_)),
      output_names_(Names(outputs_)),
      device_(std::move(device)),
      binding_(MakeBinding(executable)),
      workers_(executable.workers),
      outputs_alone_(OutputsAlone(executable.program.buffers)),
      unset_(input_names_.begin(), input_names_.end()) {
  for (std::size_t choice = 0; choice < executable.program.choices(); ++choice) {
    launches_.push_back(Launches(executable.program, choice));
  }
  for (const Port& port : inputs_) {
    shapes_.push_back(port.type.shape);
    shaped_.push_back(!IsOpenType(port.type));
  }
  const auto place = [](const std::vector<std::string>& names, const std::string& name) {
    const auto found = std::find(names.begin(), names.end(), name);
    if (found == names.end()) throw Misfit("state '" + name + "' is no input or output");
    return static_cast<std::size_t>(found - names.begin());
  };
  for (const auto& [output, input] : executable.states) {
    try {
      BindState(place(output_names_, output), place(input_names_, input));
    } catch (const ffi::Error& error) {
      throw Misfit(error.message());
    }
  }
}

void Session::SetInput(std::size_t which, ffi::TensorView value) {
  const Exclusive exclusive(&inside_);
  const Port& port = inputs_[which];
  if (IsOpenType(port.type)) {
    const BufferType given = HostTensorType("input", port.name, value);
    binding_->Require(which, given);
    RequireType("input", port.name, {given.shape, port.type.dtype}, value);
    // Until it is written.
    unset_.insert(port.name);
    device_->Resize(port.buffer, given.shape);
    shapes_[which] = given.shape;
    shaped_[which] = true;
  } else {
    RequireType("input", port.name, port.type, value);
  }
  Write(which, FirstByte(value));
}

BufferType Session::InputType(std::size_t which) {
  // Of a program of one shape it never changes.
  if (binding_ == nullptr) return inputs_[which].type;
  const Exclusive exclusive(&inside_);
  return TypeOfInput(which);
}

BufferType Session::OutputType(std::size_t which) {
  if (binding_ == nullptr) return outputs_[which].type;
  const Exclusive exclusive(&inside_);
  return TypeOfOutput(which);
}

BufferType Session::TypeOfInput(std::size_t which) const {
  const BufferType& type = inputs_[which].type;
  return shaped_[which] ? BufferType{shapes_[which], type.dtype} : KnownType(type);
}

BufferType Session::TypeOfOutput(std::size_t which) const {
  const Port& port = outputs_[which];
  // An output that is an input passed on has what the input was set to.
  for (std::size_t i = 0; i < inputs_.size(); ++i) {
    if (inputs_[i].buffer == port.buffer) return TypeOfInput(i);
  }
  return values_.empty() ? KnownType(port.type) : TypeAt(port.type, values_);
}

void Session::Write(std::size_t input, const void* bytes) {
  device_->Write(inputs_[input].buffer, bytes);
  unset_.erase(inputs_[input].name);
  for (State& state : states_) state.given |= state.input == input;
}

void Session::BindState(std::size_t output, std::size_t input) {
  const Exclusive exclusive(&inside_);
  const Port &from = outputs_[output], &to = inputs_[input];
  if (IsOpenType(from.type) || IsOpenType(to.type)) {
    Misuse("output '" + from.name + "' cannot be the state '" + to.name +
           "': a state has one shape, and theirs are open");
  }
  if (!(from.type == to.type)) {
    Misuse("output '" + from.name + "' is " + from.type.Name() + " and input '" + to.name + "' is " +
           to.type.Name() + ": a state has one shape and type");
  }
  bool exchanged = outputs_alone_[from.buffer];
  for (const State& state : states_) {
    if (state.input == input) {
      Misuse("input '" + to.name + "' is the state of two outputs: name it once");
    }
    exchanged &= outputs_[state.output].buffer != from.buffer;
  }
  states_.push_back({output, input, exchanged, true});
  Write(input, Allocate(to.type.Bytes()).get());
}

void Session::ResetStates() {
  const Exclusive exclusive(&inside_);
  if (states_.empty()) Misuse("there are no states: bind outputs to inputs with bind_state");
  for (const State& state : states_) {
    Write(state.input, Allocate(inputs_[state.input].type.Bytes()).get());
  }
}

// Lets inputs be what the last run made of states, but for those set since then.
void Session::CarryStates() {
  // An output that is an input passed on is read before that input is written.
  std::vector<std::pair<std::size_t, Block>> copied;
  for (const State& state : states_) {
    if (state.given || state.exchanged) continue;
    copied.emplace_back(inputs_[state.input].buffer, Allocate(inputs_[state.input].type.Bytes()));
    device_->Read(outputs_[state.output].buffer, copied.back().second.get());
  }
  for (const State& state : states_) {
    if (state.given || !state.exchanged) continue;
    device_->Carry(outputs_[state.output].buffer, inputs_[state.input].buffer);
  }
  for (const auto& [buffer, block] : copied) device_->Write(buffer, block.get());
}

ffi::Tensor Session::GetInput(std::size_t which) {
  const Exclusive exclusive(&inside_);
  if (!shaped_[which]) Misuse("input '" + inputs_[which].name + "' was never set");
  ffi::Tensor value = NewTensor(TypeOfInput(which));
  device_->Read(inputs_[which].buffer, FirstByte(value));
  return value;
}

ffi::Tensor Session::GetOutput(std::size_t which) {
  const Exclusive exclusive(&inside_);
  RequireRan(which);
  ffi::Tensor value = NewTensor(TypeOfOutput(which));
  device_->Read(outputs_[which].buffer, FirstByte(value));
  return value;
}

void Session::GetOutput(std::size_t which, ffi::TensorView value) {
  const Exclusive exclusive(&inside_);
  RequireRan(which);
  const Port& port = outputs_[which];
  RequireType("output", port.name, TypeOfOutput(which), value);
  device_->Read(port.buffer, FirstByte(value));
}

void Session::RequireRan(std::size_t output) const {
  if (!ran_) Misuse("output '" + outputs_[output].name + "' is not known before a complete run");
}

const BoundShape* Session::Settle() {
  return binding_ == nullptr ? nullptr : &binding_->Settle(shapes_);
}

template <typename Call>
auto Session::Running(Call call) {
  const Exclusive exclusive(&inside_);
  if (!unset_.empty()) Misuse("input '" + *unset_.begin() + "' was never set");
  const BoundShape* const shape = Settle();
  // After a run that failed, inputs are what they were.
  if (ran_) CarryStates();
  for (State& state : states_) state.given = false;
  ran_ = false;
  if (shape != nullptr) {
    values_.clear();
    device_->Bind(*shape);
    values_ = shape->values;
    choice_ = shape->choice;
  }
  auto result = call();
  ran_ = true;
  return result;
}

void Session::Reserve() {
  const Exclusive exclusive(&inside_);
  if (binding_ != nullptr) device_->Reserve(binding_->Largest());
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
      const LaunchName& name = launches_[choice_][lane][launch];
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
