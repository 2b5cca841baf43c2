// Loads a deployment of tvm-ios, or an executable for a range of shapes, and runs it on random inputs
// of several shapes.
//
//   run_deployment [-o OUTPUTS] [--reserve] FOLDER NAME:1x3x224x224[,NAME:...] ...
//
// Each argument has the shapes of all inputs of a run; a deployment picks the program. OUTPUTS
// is a folder that gets NUMBER.NAME.raw of all inputs and outputs of each run. With --reserve the
// memory of the largest shape is taken before the first run.
#include <tvm/ffi/container/map.h>
#include <tvm/ffi/extra/module.h>
#include <tvm/ffi/function.h>

#include <chrono>
#include <cstdio>
#include <iostream>
#include <sstream>
#include <string>
#include <vector>

#include "tensors.h"

namespace {

using Clock = std::chrono::steady_clock;
using About = ffi::Map<ffi::String, ffi::Any>;

double MillisecondsSince(Clock::time_point begin) {
  return std::chrono::duration<double, std::milli>(Clock::now() - begin).count();
}

class Deployment {
 public:
  explicit Deployment(const std::string& folder)
      : module_(ffi::Module::LoadFromFile(folder + "/model.tvm_ios")) {}

  // An executable has no entries to choose of.
  bool IsOne() { return !module_->GetFunction("entries").has_value(); }

  template <typename... Arguments>
  ffi::Any Call(const char* name, Arguments&&... arguments) {
    return (*module_->GetFunction(name))(std::forward<Arguments>(arguments)...);
  }

  // Sets an input of a shape such as image:1x3x224x224.
  void SetRandom(const std::string& shape, const std::string& path) {
    const std::size_t colon = shape.rfind(':');
    if (colon == std::string::npos) throw std::runtime_error(shape + " is not NAME:SHAPE");
    const std::string name = shape.substr(0, colon);
    std::vector<std::int64_t> extents;
    std::istringstream numbers(shape.substr(colon + 1));
    for (std::string number; std::getline(numbers, number, 'x');) {
      extents.push_back(std::stoll(number));
    }
    const auto info = Call("input_info", name).cast<About>();
    const ffi::Tensor value = Zeros(ffi::Shape(extents), info["dtype"].cast<ffi::String>());
    FillRandom(value);
    Call("set_input", name, value);
    if (!path.empty()) WriteRaw(path + name + ".raw", value);
  }

  void WriteOutputs(const std::string& path) {
    const auto outputs = Call("get_num_outputs").cast<std::int64_t>();
    for (std::int64_t i = 0; i < outputs; ++i) {
      const std::string name = Call("get_output_name", i).cast<ffi::String>();
      WriteRaw(path + name + ".raw", Call("get_output", i).cast<ffi::Tensor>());
    }
  }

 private:
  ffi::Module module_;
};

// Whether a program served the inputs.
bool Serve(Deployment* deployment, const std::string& shapes, const std::string& path) {
  try {
    std::istringstream inputs(shapes);
    for (std::string shape; std::getline(inputs, shape, ',');) deployment->SetRandom(shape, path);
    // The first run opens the program.
    const auto begin = Clock::now();
    deployment->Call("run");
    const double first = MillisecondsSince(begin);
    const auto again = Clock::now();
    deployment->Call("run");
    const double then = MillisecondsSince(again);
    std::string program = "the program";
    if (!deployment->IsOne()) {
      program = deployment->Call("chosen").cast<About>()["id"].cast<ffi::String>();
    }
    std::printf("%s: %s, first %.3f ms, then %.3f ms\n", shapes.c_str(), program.c_str(), first,
                then);
    if (!path.empty()) deployment->WriteOutputs(path);
    return true;
  } catch (const ffi::Error& error) {
    std::cerr << shapes << ": " << error.message() << "\n";
    return false;
  }
}

}  // namespace

int main(int argc, char** argv) {
  std::vector<std::string> arguments(argv + 1, argv + argc);
  std::string outputs;
  if (arguments.size() > 2 && arguments[0] == "-o") {
    outputs = arguments[1] + "/";
    arguments.erase(arguments.begin(), arguments.begin() + 2);
  }
  const bool reserve = !arguments.empty() && arguments[0] == "--reserve";
  if (reserve) arguments.erase(arguments.begin());
  if (arguments.size() < 2) {
    std::cerr << "usage: " << argv[0]
              << " [-o OUTPUTS] [--reserve] FOLDER NAME:SHAPE[,NAME:SHAPE] ...\n";
    return 2;
  }
  try {
    const auto begin = Clock::now();
    Deployment deployment(arguments[0]);
    const double loaded = MillisecondsSince(begin);
    const std::size_t programs =
        deployment.IsOne() ? 1 : deployment.Call("entries").cast<ffi::Array<About>>().size();
    std::printf("%d programs, loaded in %.3f ms\n", static_cast<int>(programs), loaded);
    if (reserve) deployment.Call("reserve");
    bool all = true;
    for (std::size_t run = 1; run < arguments.size(); ++run) {
      const std::string path = outputs.empty() ? "" : outputs + std::to_string(run - 1) + ".";
      all = Serve(&deployment, arguments[run], path) && all;
    }
    return all ? 0 : 1;
  } catch (const ffi::Error& error) {
    std::cerr << error.kind() << ": " << error.message() << "\n";
  } catch (const std::exception& error) {
    std::cerr << error.what() << "\n";
  }
  return 1;
}
