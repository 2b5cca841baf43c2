// What Python sees of the executor and of the loader.
#include <tvm/ffi/container/tuple.h>
#include <tvm/ffi/tvm_ffi.h>

#include <memory>
#include <sstream>
#include <utility>

#include "compiler_log.h"
#include "cpu_features.h"
#include "cpu_quota.h"
#include "entry_choice.h"
#include "executable.h"
#include "executor.h"
#include "json_text.h"
#include "sampling.h"
#include "session.h"
#include "session_module.h"
#include "sha256.h"
#include "trial.h"

namespace tvm_ios {

// Raised whenever the meaning of an exported function changes; the Python side checks it.
constexpr std::int64_t kInterface = 13;

class ExecutorObj : public ffi::Object {
 public:
  explicit ExecutorObj(Executor::Pointer executor) : executor(std::move(executor)) {}

  // Apart, because it needs a stronger alignment than an object gets.
  Executor::Pointer executor;

  static constexpr bool _type_mutable = true;
  TVM_FFI_DECLARE_OBJECT_INFO_FINAL("tvm_ios.NativeExecutor", ExecutorObj, ffi::Object);
};

class ExecutorRef : public ffi::ObjectRef {
 public:
  explicit ExecutorRef(ffi::ObjectPtr<ExecutorObj> object) : ffi::ObjectRef(std::move(object)) {}
  TVM_FFI_DEFINE_OBJECT_REF_METHODS_NOTNULLABLE(ExecutorRef, ffi::ObjectRef, ExecutorObj);
};

ffi::Array<ffi::String> Strings(const std::vector<std::string>& texts) {
  ffi::Array<ffi::String> strings;
  for (const std::string& text : texts) strings.push_back(text);
  return strings;
}
std::vector<std::string> Texts(const ffi::Array<ffi::String>& strings) {
  return std::vector<std::string>(strings.begin(), strings.end());
}

std::int64_t Interface() { return kInterface; }

ExecutorOptions Options(bool pin, double spin_seconds, double patience_seconds) {
  ExecutorOptions options;
  options.pin = pin;
  options.spin = std::chrono::nanoseconds(static_cast<std::int64_t>(spin_seconds * 1e9));
  options.patience = std::chrono::nanoseconds(static_cast<std::int64_t>(patience_seconds * 1e9));
  return options;
}

ExecutorRef Create(ffi::Array<ffi::Function> functions, ffi::Array<ffi::String> symbols,
                   ffi::Array<ffi::String> units, ffi::Array<ffi::Tensor> buffers,
                   ffi::Array<ffi::Array<std::int64_t>> lanes, bool pin, double spin_seconds,
                   double patience_seconds) {
  auto plan = std::make_unique<Plan>(functions, Texts(symbols), Texts(units), buffers, lanes);
  const ExecutorOptions options = Options(pin, spin_seconds, patience_seconds);
  return ExecutorRef(
      ffi::make_object<ExecutorObj>(Executor::Make(std::move(plan), options)));
}

void Run(ExecutorRef self) { self->executor->Run(); }

ffi::Array<double> Benchmark(ExecutorRef self, std::int64_t number, std::int64_t repeat) {
  const std::vector<double> seconds = self->executor->Benchmark(number, repeat);
  return ffi::Array<double>(seconds.begin(), seconds.end());
}

// Six numbers a launch: lane, launch, begin, end, held up (nanoseconds), the lane whose thread ran
// it.
ffi::Array<std::int64_t> Profile(ExecutorRef self) {
  const std::vector<std::vector<Span>> spans = self->executor->Profile();
  std::vector<std::int64_t> flat;
  for (std::size_t lane = 0; lane < spans.size(); ++lane) {
    for (std::size_t launch = 0; launch < spans[lane].size(); ++launch) {
      flat.insert(flat.end(),
                  {static_cast<std::int64_t>(lane), static_cast<std::int64_t>(launch),
                   spans[lane][launch].begin, spans[lane][launch].end,
                   spans[lane][launch].held_up, spans[lane][launch].runner});
    }
  }
  return ffi::Array<std::int64_t>(flat.begin(), flat.end());
}

ffi::Array<double> Floats(const Samples& samples) {
  return ffi::Array<double>(samples.begin(), samples.end());
}

ffi::Tuple<ffi::Array<double>, bool> AsTuple(const Sampled& sampled) {
  return ffi::Tuple<ffi::Array<double>, bool>(Floats(sampled.samples), sampled.disturbed);
}

ffi::Tuple<ffi::Array<double>, bool> Time(ExecutorRef self, std::int64_t samples,
                                          double sample_seconds, std::int64_t tries) {
  return AsTuple(TimeProgram(self->executor.get(), {samples, sample_seconds, tries}));
}

ffi::Array<ffi::Array<double>> Launches(ExecutorRef self) {
  ffi::Array<ffi::Array<double>> launches;
  for (const Samples& samples : ProfileLaunches(self->executor.get())) {
    launches.push_back(Floats(samples));
  }
  return launches;
}

void Randomise(ffi::Tensor tensor, std::int64_t seed) {
  FillRandom(tensor, static_cast<std::uint32_t>(seed));
}

void Close(ExecutorRef self) { self->executor->Close(); }

// A function that lets the two buffers of each pair have each other's memory. A buffer is all tensors
// that lie in it; the function keeps them.
ffi::Function MakeExchange(ffi::Array<ffi::Array<ffi::Array<ffi::Tensor>>> pairs) {
  using Tensors = std::vector<DLTensor*>;
  std::vector<std::pair<Tensors, Tensors>> places;
  const auto tensors_of = [](const ffi::Array<ffi::Tensor>& buffer) {
    Tensors tensors;
    for (const ffi::Tensor& tensor : buffer) {
      tensors.push_back(ffi::AnyView(tensor).cast<DLTensor*>());
    }
    return tensors;
  };
  for (const auto& pair : pairs) places.emplace_back(tensors_of(pair[0]), tensors_of(pair[1]));
  return ffi::Function::FromTyped([pairs, places] {
    for (const auto& [one, other] : places) {
      void* const memory = one[0]->data;
      for (DLTensor* tensor : one) tensor->data = other[0]->data;
      for (DLTensor* tensor : other) tensor->data = memory;
    }
  });
}

// A function of an address for each buffer, at which the buffers lie from then on: whoever calls it
// keeps the memory there. A buffer is all tensors that lie in it; the function keeps these.
ffi::Function MakePlacement(ffi::Array<ffi::Array<ffi::Tensor>> buffers) {
  std::vector<std::vector<DLTensor*>> places;
  for (const auto& buffer : buffers) {
    places.emplace_back();
    for (const ffi::Tensor& tensor : buffer) {
      places.back().push_back(ffi::AnyView(tensor).cast<DLTensor*>());
    }
  }
  return ffi::Function::FromPacked(
      [buffers, places](ffi::PackedArgs addresses, ffi::Any*) {
        if (static_cast<std::size_t>(addresses.size()) != places.size()) {
          Misuse("there must be an address for each input and output");
        }
        for (std::size_t i = 0; i < places.size(); ++i) {
          const auto address = addresses[static_cast<int>(i)].cast<std::int64_t>();
          for (DLTensor* tensor : places[i]) tensor->data = reinterpret_cast<void*>(address);
        }
      });
}

// A program that is given as its files' texts, and how its user names its inputs and outputs: each
// as its name and that of its buffer.
using PortNames = ffi::Array<ffi::Array<ffi::String>>;

std::vector<Port> PortsOf(const PortNames& names, const Program& program) {
  std::vector<Port> ports;
  for (const ffi::Array<ffi::String>& name : names) {
    for (std::size_t i = 0; i < program.buffers.size(); ++i) {
      if (program.buffers[i].name != name[1]) continue;
      ports.push_back({name[0], i, program.buffers[i].type});
    }
  }
  if (ports.size() != names.size()) throw Misfit("an input or output has no buffer");
  return ports;
}

Executable ReadTexts(const ffi::Bytes& program, const ffi::Bytes& memory, const PortNames& inputs) {
  Executable executable;
  executable.program = ReadProgram(ParseObject({program.data(), program.size()}));
  executable.memory =
      ReadMemoryPlan(ParseObject({memory.data(), memory.size()}), executable.program);
  executable.inputs = PortsOf(inputs, executable.program);
  return executable;
}

// A session of an open program as a module, whose constants are given by the names of their buffers.
ffi::Module OpenProgram(ffi::Array<ffi::Function> kernels, ffi::Bytes program, ffi::Bytes memory,
                        ffi::Map<ffi::String, ffi::Tensor> constants, PortNames inputs,
                        PortNames outputs, bool pin, double spin_seconds,
                        double patience_seconds) {
  return WithOneSentence("the program", [&] {
    Executable executable = ReadTexts(program, memory, inputs);
    executable.outputs = PortsOf(outputs, executable.program);
    for (std::size_t i = 0; i < executable.program.buffers.size(); ++i) {
      const Buffer& buffer = executable.program.buffers[i];
      if (buffer.role != "constant") continue;
      const auto tensor = constants.Get(buffer.name);
      if (!tensor) throw Misfit("it lacks the constant '" + buffer.name + "'");
      // The tensor lives as long as the block.
      const Block block(static_cast<char*>(tensor->data_ptr()), [tensor](char*) {});
      executable.constants.emplace(i, Constant{buffer.name, block});
    }
    const ExecutorOptions options = Options(pin, spin_seconds, patience_seconds);
    const std::vector<ffi::Function> functions(kernels.begin(), kernels.end());
    return SessionModule(std::make_unique<Session>(executable, functions, options),
                         [](bool) -> std::unique_ptr<ModelSession> {
                           Misuse("workers of this program are opened in Python");
                         });
  });
}

// A function that makes of the shapes of all inputs what a session makes of them: the values of the
// symbols by name, the size of the arena, the offset of each buffer or -1, and the lanes as Plan
// takes them. Without all shapes it only requires those that are given.
ffi::Function ShapeBinder(ffi::Bytes program, ffi::Bytes memory, PortNames inputs) {
  return WithOneSentence("the program", [&] {
    const auto executable = std::make_shared<Executable>(ReadTexts(program, memory, inputs));
    std::vector<ShapedInput> shaped;
    for (const Port& port : executable->inputs) shaped.push_back({port.name, port.type});
    const auto binding =
        std::make_shared<ShapeBinding>(executable->program, executable->memory, shaped);
    using Shape = ffi::Array<std::int64_t>;
    using Bound = ffi::Map<ffi::String, ffi::Any>;
    return ffi::Function::FromTyped([=](ffi::Array<ffi::Optional<Shape>> given)
                                        -> ffi::Optional<Bound> {
      std::vector<std::vector<std::int64_t>> shapes;
      bool complete = true;
      for (std::size_t i = 0; i < shaped.size(); ++i) {
        const ffi::Optional<Shape> shape = given[i];
        complete &= shape.has_value();
        if (!shape) continue;
        shapes.emplace_back((*shape).begin(), (*shape).end());
        binding->Require(i, {shapes.back(), shaped[i].type.dtype});
      }
      if (!complete) return std::nullopt;
      const BoundShape& bound = binding->Settle(shapes);
      const Program& open = executable->program;
      ffi::Map<ffi::String, std::int64_t> symbols;
      for (std::size_t i = 0; i < bound.symbols.size(); ++i) {
        symbols.Set(open.expressions.symbols()[i].name, bound.symbols[i]);
      }
      std::vector<std::int64_t> offsets(open.buffers.size(), -1);
      for (std::size_t i = 0; i < bound.offsets.size(); ++i) {
        offsets[executable->memory.order[i]] = static_cast<std::int64_t>(bound.offsets[i]);
      }
      ffi::Array<ffi::Array<std::int64_t>> lanes;
      for (std::vector<std::int64_t> lane : open.lanes) {
        for (std::int64_t& number : lane) number = At(number, bound.values);
        lanes.push_back(ffi::Array<std::int64_t>(lane.begin(), lane.end()));
      }
      return Bound{{"symbols", symbols},
                   {"nbytes", static_cast<std::int64_t>(bound.bytes)},
                   {"offsets", ffi::Array<std::int64_t>(offsets.begin(), offsets.end())},
                   {"lanes", lanes}};
    });
  });
}

double Quota(ffi::String groups, ffi::String membership) { return CpuQuota(groups, membership); }

// Checks an executable, and returns its constants by the names of their buffers. They must not be
// written to, and live as long as anything that lies in them.
ffi::Map<ffi::String, ffi::Tensor> Open(ffi::String path, ffi::String name) {
  return WithOneSentence(name, [&] {
    const Executable executable = OpenExecutable(path, name);
    ffi::Map<ffi::String, ffi::Tensor> constants;
    for (const auto& [number, constant] : executable.constants) {
      const Buffer& buffer = executable.program.buffers[number];
      constants.Set(buffer.name, TensorIn(constant.block, 0, buffer.type));
    }
    return constants;
  });
}

ffi::Array<ffi::Function> Kernels(ffi::String path, ffi::Array<ffi::String> symbols) {
  return LoadKernels(path, Texts(symbols));
}

bool CallTvm(ffi::String path) { return KernelsCallTvm(path); }

ffi::Array<ffi::String> Missing(ffi::Array<ffi::String> features) {
  return Strings(MissingFeatures(Texts(features)));
}

ffi::Array<ffi::String> Known() { return Strings(KnownFeatures()); }

// What is asked of a deployment's entries, read from JSON.
struct Question {
  std::vector<Entry> entries;
  Machine machine;
  std::optional<Shapes> shapes;
};

Machine ReadMachine(const JsonObject& about) {
  const auto set = [&](const char* key) {
    const std::vector<std::string> texts = tvm_ios::Texts(Field(about, key));
    return std::set<std::string>(texts.begin(), texts.end());
  };
  const ffi::Any streams = Field(about, "streams");
  return {set("features"), Natural(Field(about, "lanes")), set("gpu_archs"),
          streams == nullptr ? std::nullopt : std::optional(Natural(streams))};
}

// Calls a function that reads entries, and makes what it throws one sentence.
template <typename Read>
auto OfDeployment(Read read) -> decltype(read()) {
  try {
    return read();
  } catch (const Misfit& misfit) {
    RefuseDeployment(std::string("the deployment misstates something: ") + misfit.what() +
                     "; make it again");
  }
}

Question ReadQuestion(const ffi::Bytes& json) {
  return OfDeployment([&]() -> Question {
    const JsonObject asked = ParseObject({json.data(), json.size()});
    Question question{ReadEntries(List(Field(asked, "entries"))),
                      ReadMachine(Object(Field(asked, "machine"))), std::nullopt};
    if (const ffi::Any shapes = Field(asked, "shapes"); shapes != nullptr) {
      question.shapes.emplace();
      for (const ffi::Any& item : List(shapes)) {
        const JsonArray pair = List(item);
        question.shapes->emplace_back(Text(pair[0]), Naturals(pair[1]));
      }
    }
    return question;
  });
}

// What this machine has of what entries need, and its lanes.
ffi::Map<ffi::String, ffi::Any> ThisMachineFor(ffi::Bytes json, std::int64_t lanes) {
  const std::vector<Entry> entries = OfDeployment([&] {
    return ReadEntries(List(Field(ParseObject({json.data(), json.size()}), "entries")));
  });
  const Machine machine = ThisMachine(entries, lanes);
  const auto strings = [](const std::set<std::string>& texts) {
    return Strings({texts.begin(), texts.end()});
  };
  return {{"features", strings(machine.features)},
          {"lanes", machine.lanes},
          {"gpu_archs", strings(machine.gpu_archs)}};
}

// The number of the entry that a machine takes; without shapes, for the smallest batch.
std::int64_t Choose(ffi::Bytes json) {
  const auto [entries, machine, shapes] = ReadQuestion(json);
  return static_cast<std::int64_t>(shapes ? ChooseEntry(entries, machine, *shapes)
                                          : ChooseSmallest(entries, machine));
}

// Of each entry whether it fits, whether it is taken, and why.
ffi::Array<ffi::Tuple<bool, bool, ffi::String>> Judge(ffi::Bytes json) {
  const auto [entries, machine, shapes] = ReadQuestion(json);
  ffi::Array<ffi::Tuple<bool, bool, ffi::String>> verdicts;
  for (const Verdict& verdict : JudgeEntries(entries, machine, shapes)) {
    verdicts.push_back(
        ffi::Tuple<bool, bool, ffi::String>(verdict.fits, verdict.taken, verdict.reason));
  }
  return verdicts;
}

// What TVM's RPC calls on the machine that measures.
ffi::String Opened(ffi::String text) { return OpenTrial(text); }
ffi::String Timed(std::int64_t trial, std::int64_t samples, double sample_seconds,
                  std::int64_t tries) {
  return TimeTrial(trial, {samples, sample_seconds, tries});
}
ffi::String Profiled(std::int64_t trial) { return ProfileTrial(trial); }
void Closed(std::int64_t trial) { CloseTrial(trial); }
void Freed(ffi::String text) { FreeLibraries(text); }
void Gathered(ffi::String text) { GatherFiles(text); }
ffi::String Facts() { return MachineFacts(); }

// What only tests ask for.
ffi::Array<ffi::String> MissingThere(ffi::Array<ffi::String> features, ffi::String cpuinfo) {
  std::istringstream text{std::string(cpuinfo)};
  return Strings(MissingFeatures(Texts(features), text));
}
ffi::Tuple<ffi::Array<double>, bool> SampledUndisturbed(std::int64_t samples, std::int64_t tries,
                                                        std::int64_t allowed, ffi::Function sample,
                                                        ffi::Function interruptions) {
  return AsTuple(Undisturbed(
      samples, tries, allowed, [&] { return sample().cast<double>(); },
      [&] { return interruptions().cast<std::int64_t>(); }));
}
ffi::String Digest(ffi::Bytes bytes, bool portably) {
  return Sha256({bytes.data(), bytes.size()}, portably);
}
void Parse(ffi::Bytes json) { ParseObject({json.data(), json.size()}); }

TVM_FFI_DLL_EXPORT_TYPED_FUNC(sha256, Digest);
TVM_FFI_DLL_EXPORT_TYPED_FUNC(choose_entry, Choose);
TVM_FFI_DLL_EXPORT_TYPED_FUNC(judge_entries, Judge);
TVM_FFI_DLL_EXPORT_TYPED_FUNC(this_machine, ThisMachineFor);
TVM_FFI_DLL_EXPORT_TYPED_FUNC(parse_json, Parse);
TVM_FFI_DLL_EXPORT_TYPED_FUNC(open_executable, Open);
TVM_FFI_DLL_EXPORT_TYPED_FUNC(load_kernels, Kernels);
TVM_FFI_DLL_EXPORT_TYPED_FUNC(kernels_call_tvm, CallTvm);
TVM_FFI_DLL_EXPORT_TYPED_FUNC(missing_features, Missing);
TVM_FFI_DLL_EXPORT_TYPED_FUNC(missing_features_there, MissingThere);
TVM_FFI_DLL_EXPORT_TYPED_FUNC(known_features, Known);
TVM_FFI_DLL_EXPORT_TYPED_FUNC(interface_version, Interface);
TVM_FFI_DLL_EXPORT_TYPED_FUNC(cpu_quota, Quota);
TVM_FFI_DLL_EXPORT_TYPED_FUNC(create, Create);
TVM_FFI_DLL_EXPORT_TYPED_FUNC(run, Run);
TVM_FFI_DLL_EXPORT_TYPED_FUNC(benchmark, Benchmark);
TVM_FFI_DLL_EXPORT_TYPED_FUNC(profile, Profile);
TVM_FFI_DLL_EXPORT_TYPED_FUNC(close, Close);
TVM_FFI_DLL_EXPORT_TYPED_FUNC(make_exchange, MakeExchange);
TVM_FFI_DLL_EXPORT_TYPED_FUNC(make_placement, MakePlacement);
TVM_FFI_DLL_EXPORT_TYPED_FUNC(open_program, OpenProgram);
TVM_FFI_DLL_EXPORT_TYPED_FUNC(shape_binder, ShapeBinder);
TVM_FFI_DLL_EXPORT_TYPED_FUNC(time_program, Time);
TVM_FFI_DLL_EXPORT_TYPED_FUNC(profile_launches, Launches);
TVM_FFI_DLL_EXPORT_TYPED_FUNC(fill_random, Randomise);
TVM_FFI_DLL_EXPORT_TYPED_FUNC(undisturbed, SampledUndisturbed);
TVM_FFI_DLL_EXPORT_TYPED_FUNC(open_trial, Opened);
TVM_FFI_DLL_EXPORT_TYPED_FUNC(time_trial, Timed);
TVM_FFI_DLL_EXPORT_TYPED_FUNC(profile_trial, Profiled);
TVM_FFI_DLL_EXPORT_TYPED_FUNC(close_trial, Closed);
TVM_FFI_DLL_EXPORT_TYPED_FUNC(free_libraries, Freed);
TVM_FFI_DLL_EXPORT_TYPED_FUNC(gather_files, Gathered);
TVM_FFI_DLL_EXPORT_TYPED_FUNC(machine_facts, Facts);
TVM_FFI_DLL_EXPORT_TYPED_FUNC(drop_compiler_warnings, DropCompilerWarnings);

}  // namespace tvm_ios
