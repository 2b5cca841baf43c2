#include "trial.h"

#include <sys/utsname.h>
#include <tvm/ffi/extra/json.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <map>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include "affinity.h"
#include "cpu_features.h"
#include "cpu_quota.h"
#include "executable.h"
#include "executor.h"
#include "json_text.h"

namespace tvm_ios {

namespace {

// A server has one session at a time and a session one caller, but nothing here rests on that.
struct State {
  std::mutex mutex;
  std::map<std::string, ffi::Module> libraries;
  std::map<std::int64_t, std::shared_ptr<Executor>> trials;
  std::int64_t last = 0;
};

State& TheState() {
  static auto* const state = new State;
  return *state;
}

std::shared_ptr<Executor> Find(std::int64_t trial) {
  State& state = TheState();
  const std::lock_guard<std::mutex> lock(state.mutex);
  const auto found = state.trials.find(trial);
  if (found == state.trials.end()) {
    throw ffi::Error("ExecutableError", "there is no trial " + std::to_string(trial), "");
  }
  return found->second;
}

ffi::Module Library(const std::string& path) {
  State& state = TheState();
  const std::lock_guard<std::mutex> lock(state.mutex);
  const auto found = state.libraries.find(path);
  if (found != state.libraries.end()) return found->second;
  return state.libraries.emplace(path, LoadKernelLibrary(path)).first->second;
}

std::vector<ffi::Tensor> RandomBuffers(const std::vector<Buffer>& buffers) {
  std::vector<ffi::Tensor> wholes(buffers.size());
  for (std::size_t i = 0; i < buffers.size(); ++i) {
    if (buffers[i].whole != i) continue;
    wholes[i] = TensorIn(Allocate(buffers[i].type.Bytes()), 0, buffers[i].type);
    FillRandom(wholes[i], static_cast<std::uint32_t>(i));
  }
  // Kernels of a part are given the whole.
  std::vector<ffi::Tensor> tensors;
  for (const Buffer& buffer : buffers) tensors.push_back(wholes[buffer.whole]);
  return tensors;
}

std::shared_ptr<Executor> Prepare(const JsonObject& request) {
  const Program program = ReadProgram(Object(Field(request, "program")));
  if (program.expressions.open()) throw Misfit("a program is timed at one shape");
  const std::vector<std::string> paths = Texts(Field(request, "libraries"));
  if (paths.size() != program.kernels.size()) throw Misfit("not every kernel has a library");
  ffi::Array<ffi::Function> functions;
  for (std::size_t i = 0; i < paths.size(); ++i) {
    functions.push_back(KernelOf(Library(paths[i]), paths[i], program.kernels[i]));
  }
  ffi::Array<ffi::Array<std::int64_t>> lanes;
  for (const auto& lane : program.lanes) {
    lanes.push_back(ffi::Array<std::int64_t>(lane.begin(), lane.end()));
  }
  const std::vector<ffi::Tensor> buffers = RandomBuffers(program.buffers);
  auto plan = std::make_unique<Plan>(functions, program.kernels, program.units,
                                     ffi::Array<ffi::Tensor>(buffers.begin(), buffers.end()), lanes);
  return Executor::Make(std::move(plan), {});
}

std::string Json(const ffi::Any& value) { return ffi::json::Stringify(value); }

JsonArray Numbers(const Samples& samples) { return JsonArray(samples.begin(), samples.end()); }

}  // namespace

std::string OpenTrial(const std::string& text) {
  return WithOneSentence("the program to be timed", [&] {
    std::shared_ptr<Executor> executor = Prepare(ParseObject(text));
    const double seconds = executor->Benchmark(1, 1).front();
    State& state = TheState();
    const std::lock_guard<std::mutex> lock(state.mutex);
    state.trials.emplace(++state.last, std::move(executor));
    JsonObject opened;
    opened.Set(ffi::String("trial"), state.last);
    opened.Set(ffi::String("seconds"), seconds);
    return Json(opened);
  });
}

std::string TimeTrial(std::int64_t trial, const Sampling& sampling) {
  return Json(Numbers(TimeProgram(Find(trial).get(), sampling).samples));
}

std::string ProfileTrial(std::int64_t trial) {
  JsonArray launches;
  for (const Samples& samples : ProfileLaunches(Find(trial).get())) {
    launches.push_back(Numbers(samples));
  }
  return Json(launches);
}

void CloseTrial(std::int64_t trial) {
  State& state = TheState();
  const std::lock_guard<std::mutex> lock(state.mutex);
  state.trials.erase(trial);
}

void FreeLibraries(const std::string& text) {
  WithOneSentence("the list of libraries", [&] {
    State& state = TheState();
    const std::lock_guard<std::mutex> lock(state.mutex);
    for (const std::string& path : Texts(Field(ParseObject(text), "libraries"))) {
      state.libraries.erase(path);
    }
    return true;
  });
}

void GatherFiles(const std::string& text) {
  WithOneSentence("the list of files", [&] {
    const JsonObject request = ParseObject(text);
    const std::filesystem::path folder = Text(Field(request, "folder"));
    const std::vector<std::string> names = Texts(Field(request, "names"));
    const std::vector<std::string> paths = Texts(Field(request, "paths"));
    if (names.size() != paths.size()) throw Misfit("not every name has a path");
    std::filesystem::create_directories(folder);
    for (std::size_t i = 0; i < names.size(); ++i) {
      const std::filesystem::path name = std::filesystem::path(names[i]).filename();
      if (name.empty() || name != names[i]) throw Misfit("'" + names[i] + "' is no file's name");
      std::filesystem::create_hard_link(paths[i], folder / name);
    }
    return true;
  });
}

std::string MachineFacts() {
  utsname names;
  uname(&names);
  std::string cpuinfo;
  std::ifstream file("/proc/cpuinfo");
  for (std::string line; std::getline(file, line) && !line.empty();) cpuinfo += line + "\n";
  const std::vector<std::string> known = KnownFeatures();
  const std::vector<std::string> missing = MissingFeatures(known);
  JsonArray features;
  for (const std::string& name : known) {
    if (std::find(missing.begin(), missing.end(), name) == missing.end()) {
      features.push_back(ffi::String(name));
    }
  }
  const double lanes = std::min(static_cast<double>(AllowedCpus().size()), CpuQuota());
  JsonObject facts;
  facts.Set(ffi::String("machine"), ffi::String(names.machine));
  facts.Set(ffi::String("cpuinfo"), ffi::String(cpuinfo));
  facts.Set(ffi::String("features"), features);
  facts.Set(ffi::String("lanes"), static_cast<std::int64_t>(std::max(1.0, lanes)));
  return Json(facts);
}

}  // namespace tvm_ios
