#include "cuda_driver.h"

#include <dlfcn.h>
#include <unistd.h>

#include <algorithm>

namespace tvm_ios::cuda {

namespace {

[[noreturn]] void Refuse(const std::string& sentence) {
  throw tvm::ffi::Error("ExecutableError", sentence, "");
}

Driver FindDriver() {
  void* const library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) {
    Refuse("there is no CUDA device here: NVIDIA's driver (libcuda.so.1) is not installed");
  }
  Driver driver;
#define TVM_IOS_CUDA_FIND(name, symbol, ...) \
  driver.name = reinterpret_cast<int (*)(__VA_ARGS__)>(dlsym(library, symbol));
#define TVM_IOS_CUDA_REQUIRE(name, symbol, ...)  \
  TVM_IOS_CUDA_FIND(name, symbol, __VA_ARGS__) \
  if (driver.name == nullptr) Refuse("NVIDIA's driver is too old: it lacks " symbol);
  TVM_IOS_CUDA_FUNCTIONS(TVM_IOS_CUDA_REQUIRE)
  TVM_IOS_CUDA_OPTIONAL_FUNCTIONS(TVM_IOS_CUDA_FIND)
#undef TVM_IOS_CUDA_REQUIRE
#undef TVM_IOS_CUDA_FIND
  if (driver.Init(0) != 0) Refuse("there is no usable CUDA device here: cuInit fails");
  return driver;
}

// As in cuda.h.
constexpr int kMajor = 75;
constexpr int kMinor = 76;

Gpu FindGpu() {
  Gpu gpu;
  int device;
  char name[128] = {};
  TVM_IOS_CUDA(DeviceGet, &device, 0);
  TVM_IOS_CUDA(DeviceGetName, name, sizeof name - 1, device);
  TVM_IOS_CUDA(DeviceGetAttribute, &gpu.major, kMajor, device);
  TVM_IOS_CUDA(DeviceGetAttribute, &gpu.minor, kMinor, device);
  TVM_IOS_CUDA(DevicePrimaryCtxRetain, &gpu.context, device);
  gpu.name = name;
  gpu.process = getpid();
  return gpu;
}

std::string Sentence(const char* function, int status) {
  const char* name = nullptr;
  const char* words = nullptr;
  LoadDriver().GetErrorName(status, &name);
  LoadDriver().GetErrorString(status, &words);
  return std::string(function) + " failed with " + (name ? name : std::to_string(status)) + ": " +
         (words ? words : "an error without a description");
}

// Whether the driver can release a handle: a forked child has no context.
bool Reachable() {
  return getpid() == OpenGpu().process && LoadDriver().CtxSetCurrent(OpenGpu().context) == 0;
}

}  // namespace

const Driver& LoadDriver() {
  static const Driver driver = FindDriver();
  return driver;
}

Failure::Failure(const char* function, int status)
    : tvm::ffi::Error("CudaError", Sentence(function, status), "") {}

void Gpu::Use() const {
  if (getpid() != process) {
    throw tvm::ffi::Error("ForkError",
                          "CUDA was opened by the process that this one was forked from; open the "
                          "session here, and start processes with 'spawn'",
                          "");
  }
  TVM_IOS_CUDA(CtxSetCurrent, context);
}

const Gpu& OpenGpu() {
  static const Gpu gpu = FindGpu();
  return gpu;
}

bool RunsOn(const std::string& arch, int major, int minor) {
  std::string digits = arch.rfind("sm_", 0) == 0 ? arch.substr(3) : "";
  const bool exact = !digits.empty() && digits.back() == 'a';
  while (!digits.empty() && (digits.back() == 'a' || digits.back() == 'f')) digits.pop_back();
  const bool number = std::all_of(digits.begin(), digits.end(),
                                  [](char digit) { return '0' <= digit && digit <= '9'; });
  if (digits.empty() || digits.size() > 4 || !number) return false;
  const int arch_number = std::stoi(digits);
  return arch_number / 10 == major &&
         (exact ? arch_number % 10 == minor : arch_number % 10 <= minor);
}

std::shared_ptr<void> Owned(Handle handle, int (*release)(Handle)) {
  return {handle, [release](Handle owned) {
            if (Reachable()) release(owned);
          }};
}

std::shared_ptr<const Address> AllocateOn(const Gpu& gpu, std::size_t bytes) {
  gpu.Use();
  auto address = std::make_unique<Address>();
  TVM_IOS_CUDA(MemAlloc, address.get(), std::max<std::size_t>(bytes, 1));
  return {address.release(), [](const Address* owned) {
            if (Reachable()) LoadDriver().MemFree(*owned);
            delete owned;
          }};
}

}  // namespace tvm_ios::cuda
