#include "cuda_kernels.h"

#include <limits>
#include <map>

#include "params_file.h"

namespace tvm_ios {

namespace {

unsigned Count(const ffi::Any& value) {
  const std::int64_t count = Natural(value);
  if (count > std::numeric_limits<int>::max()) throw Misfit("a kernel is too large to launch");
  return static_cast<unsigned>(count);
}

std::array<unsigned, 3> Extents(const ffi::Any& value) {
  const JsonArray extents = List(value);
  if (extents.size() != 3) throw Misfit("a kernel has not three extents");
  return {Count(extents[0]), Count(extents[1]), Count(extents[2])};
}

}  // namespace

std::vector<CudaKernel> ReadCudaKernels(std::string_view file, const std::string& arch,
                                        const std::vector<std::string>& symbols) {
  const std::map<std::string, StoredTensor> cubins = ReadSafetensors(file);
  const JsonObject about = ParseObject(SafetensorsMetadata(file, "kernels"));
  if (Text(Field(about, "format")) != "tvm-ios cuda kernels" ||
      Natural(Field(about, "version")) != 1) {
    throw Misfit("the kernels are not tvm-ios cuda kernels of version 1");
  }
  if (Text(Field(about, "arch")) != arch) throw Misfit("the kernels are not for " + arch);
  const JsonObject facts = Object(Field(about, "kernels"));
  if (about.Get(ffi::String("cudnn"))) {
    throw Misfit("it calls cuDNN, which only sessions of Python do: build it with --no-cudnn");
  }
  std::map<std::string, std::shared_ptr<const std::string>> modules;
  std::vector<CudaKernel> kernels;
  for (const std::string& symbol : symbols) {
    const JsonArray fields = List(Field(facts, symbol));
    // Only kernels that may be launched early have a seventh, which says so.
    const bool early = fields.size() == 7;
    if (fields.size() != 6 && !early) throw Misfit("kernel '" + symbol + "' is not described");
    const std::string key = Text(fields[4]);
    const auto cubin = cubins.find(key);
    if (cubin == cubins.end()) throw Misfit("kernel '" + symbol + "' has no code");
    auto& code = modules[key];
    if (!code) code = std::make_shared<const std::string>(cubin->second.bytes);
    kernels.push_back({Text(fields[0]), Extents(fields[1]), Extents(fields[2]), Count(fields[3]),
                       Naturals(fields[5]), code, early});
  }
  return kernels;
}

}  // namespace tvm_ios
