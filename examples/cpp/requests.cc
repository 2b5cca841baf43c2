// Serves many requests of an executable or a deployment of tvm-ios, several at once.
//
//   run_many [-o OUTPUTS] FOLDER REQUESTS [WORKERS]
//
// Inputs are random; each request runs on one lane of a worker. OUTPUTS is a folder that gets
// NUMBER.NAME.raw of all inputs and outputs of each request.
#include <tvm/ffi/container/array.h>
#include <tvm/ffi/container/map.h>
#include <tvm/ffi/extra/module.h>
#include <tvm/ffi/function.h>

#include <chrono>
#include <cstdio>
#include <iostream>
#include <string>
#include <vector>

#include "tensors.h"

namespace {

using Clock = std::chrono::steady_clock;
using Request = ffi::Map<ffi::String, ffi::Tensor>;
using Result = ffi::Array<ffi::Tensor>;

double Serve(const ffi::Module& model, const ffi::Array<Request>& requests, int workers,
             ffi::Array<Result>* results) {
  const ffi::Function run_many = *model->GetFunction("run_many");
  const auto begin = Clock::now();
  // Without a number of workers there are as many as `optimize` found to be best, or lanes.
  const ffi::Any served = workers > 0 ? run_many(requests, workers) : run_many(requests);
  const double seconds = std::chrono::duration<double>(Clock::now() - begin).count();
  *results = served.cast<ffi::Array<Result>>();
  return seconds;
}

void RunMany(const std::string& folder, int count, int workers, const std::string& path) {
  const ffi::Module model = ffi::Module::LoadFromFile(folder + "/model.tvm_ios");
  const auto call = [&](const char* name, auto&&... arguments) {
    return (*model->GetFunction(name))(arguments...);
  };
  const auto inputs = call("get_input_names").cast<ffi::Array<ffi::String>>();
  const auto outputs = call("get_output_names").cast<ffi::Array<ffi::String>>();
  ffi::Array<Request> requests;
  for (int number = 0; number < count; ++number) {
    Request request;
    for (const ffi::String& name : inputs) {
      const auto info = call("input_info", name).cast<ffi::Map<ffi::String, ffi::Any>>();
      const ffi::Tensor value =
          Zeros(info["shape"].cast<ffi::Shape>(), info["dtype"].cast<ffi::String>());
      FillRandom(value, number);
      request.Set(name, value);
    }
    requests.push_back(request);
  }
  ffi::Array<Result> results;
  // Workers are made by the first call.
  Serve(model, requests, workers, &results);
  const double seconds = Serve(model, requests, workers, &results);
  std::printf("%d requests: %.1f a second\n", count, count / seconds);
  for (int number = 0; !path.empty() && number < count; ++number) {
    const std::string begin = path + std::to_string(number) + ".";
    for (const auto& [name, value] : requests[number]) {
      WriteRaw(begin + std::string(name) + ".raw", value);
    }
    for (std::size_t i = 0; i < outputs.size(); ++i) {
      WriteRaw(begin + std::string(outputs[i]) + ".raw", results[number][i]);
    }
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
  if (arguments.size() != 2 && arguments.size() != 3) {
    std::cerr << "usage: " << argv[0] << " [-o OUTPUTS] FOLDER REQUESTS [WORKERS]\n";
    return 2;
  }
  try {
    RunMany(arguments[0], std::stoi(arguments[1]),
            arguments.size() == 3 ? std::stoi(arguments[2]) : 0, outputs);
    return 0;
  } catch (const ffi::Error& error) {
    std::cerr << error.kind() << ": " << error.message() << "\n";
  } catch (const std::exception& error) {
    std::cerr << error.what() << "\n";
  }
  return 1;
}
