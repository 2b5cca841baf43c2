// Loads an executable of tvm-ios, runs it, and prints the largest outputs and the latency.
//
//   run_model FOLDER [INPUT.raw [OUTPUT.raw]]
//
// INPUT.raw holds the elements of the first input as they lie in memory; without it all inputs
// of numbers with a point are random. OUTPUT.raw gets the first output.
#include <tvm/ffi/container/array.h>
#include <tvm/ffi/container/map.h>
#include <tvm/ffi/container/tensor.h>
#include <tvm/ffi/extra/module.h>
#include <tvm/ffi/function.h>

#include <algorithm>
#include <cstdio>
#include <fstream>
#include <iostream>
#include <numeric>
#include <stdexcept>
#include <string>
#include <vector>

#include "tensors.h"

namespace {

void ReadRaw(const std::string& path, const ffi::Tensor& tensor) {
  const std::streamsize bytes = Bytes(tensor);
  std::ifstream file(path, std::ios::binary);
  file.read(static_cast<char*>(tensor.data_ptr()), bytes);
  if (file.gcount() != bytes || file.peek() != EOF) {
    throw std::runtime_error(path + " does not hold " + std::to_string(bytes) + " bytes");
  }
}

void PrintTop5(const ffi::Tensor& tensor) {
  const float* const data = static_cast<const float*>(tensor.data_ptr());
  std::vector<std::int64_t> order(tensor.numel());
  std::iota(order.begin(), order.end(), 0);
  const auto top = order.begin() + std::min<std::ptrdiff_t>(5, tensor.numel());
  std::partial_sort(order.begin(), top, order.end(),
                    [&](std::int64_t a, std::int64_t b) { return data[a] > data[b]; });
  for (auto at = order.begin(); at != top; ++at) {
    std::printf("  %6ld  %.6g\n", static_cast<long>(*at), data[*at]);
  }
}

void RunModel(int argc, char** argv) {
  // The loader is chosen by the file's ending.
  const ffi::Module model = ffi::Module::LoadFromFile(std::string(argv[1]) + "/model.tvm_ios");
  const auto call = [&](const char* name, auto&&... arguments) {
    return (*model->GetFunction(name))(arguments...);
  };
  const auto inputs = call("get_num_inputs").cast<std::int64_t>();
  for (std::int64_t i = 0; i < inputs; ++i) {
    const auto info = call("input_info", i).cast<ffi::Map<ffi::String, ffi::Any>>();
    const ffi::Tensor value =
        Zeros(info["shape"].cast<ffi::Shape>(), info["dtype"].cast<ffi::String>());
    if (i == 0 && argc > 2) {
      ReadRaw(argv[2], value);
    } else {
      FillRandom(value);
    }
    call("set_input", i, value);
  }

  call("run");
  const auto name = call("get_output_name", 0).cast<ffi::String>();
  const auto output = call("get_output", 0).cast<ffi::Tensor>();
  std::printf("%s: %ld values\n", name.c_str(), static_cast<long>(output.numel()));
  if (IsFloat32(output)) PrintTop5(output);
  if (argc > 3) WriteRaw(argv[3], output);

  // Twenty samples, each the mean of five runs.
  const auto samples = call("benchmark", 5, 20).cast<ffi::Array<double>>();
  std::vector<double> seconds(samples.begin(), samples.end());
  std::sort(seconds.begin(), seconds.end());
  std::printf("latency: median %.3f ms, least %.3f ms\n", seconds[seconds.size() / 2] * 1e3,
              seconds[0] * 1e3);
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 2 || argc > 4) {
    std::cerr << "usage: " << argv[0] << " FOLDER [INPUT.raw [OUTPUT.raw]]\n";
    return 2;
  }
  try {
    RunModel(argc, argv);
  } catch (const ffi::Error& error) {
    std::cerr << error.kind() << ": " << error.message() << "\n";
    return 1;
  } catch (const std::exception& error) {
    std::cerr << error.what() << "\n";
    return 1;
  }
  return 0;
}
