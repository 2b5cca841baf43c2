// The driver's functions of devices, contexts, memory, modules and launches.
#include <dlfcn.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>

#include "calls.h"

using namespace stand_in;

namespace stand_in {

bool& in_context() {
  static thread_local bool current = false;
  return current;
}

}  // namespace stand_in

namespace {

constexpr size_t kDeviceBytes = size_t{1} << 30;
constexpr unsigned kMostShared = 227 << 10;
constexpr unsigned kProcessors = 132, kThreads = 2048;
constexpr int kForGpus = 190;  // of ELF files, as cubins are: EM_CUDA

int compute_nothing(void**, const unsigned*) { return 0; }

Result allocate(std::map<uintptr_t, size_t>& allocations, void** pointer, size_t nbytes) {
  if (Result refused = reject_in_capture()) return refused;
  if (nbytes == 0) return kInvalidValue;
  size_t total = nbytes;
  for (auto& [address, size] : allocations) total += size;
  if (total > kDeviceBytes) return kOutOfMemory;
  *pointer = aligned_alloc(256, (nbytes + 255) / 256 * 256);
  std::memset(*pointer, idle() ? 0 : 0xFF, nbytes);
  allocations[reinterpret_cast<uintptr_t>(*pointer)] = nbytes;
  return kSuccess;
}

// The memory itself is never used again, so that late writes to it harm nobody else.
Result release(std::map<uintptr_t, size_t>& allocations, uintptr_t pointer) {
  if (Result refused = reject_in_capture()) return refused;
  auto found = allocations.find(pointer);
  if (found == allocations.end()) return kInvalidValue;
  if (idle()) {
    std::free(reinterpret_cast<void*>(pointer));
  } else {
    std::memset(reinterpret_cast<void*>(pointer), 0xFF, found->second);
  }
  allocations.erase(found);
  return kSuccess;
}

Result copy(uintptr_t target, uintptr_t source, size_t nbytes, uintptr_t on_device) {
  if (!within(state().memory, on_device, nbytes)) return kIllegalAddress;
  std::memcpy(reinterpret_cast<void*>(target), reinterpret_cast<void*>(source), nbytes);
  return kSuccess;
}

}  // namespace

CALL(cuInit, unsigned) { return kSuccess; }

// How newer cuda-bindings find everything: the latest form of a function that there is.
CALL(cuGetProcAddress_v2, const char* symbol, void** function, int, uint64_t, int* status) {
  Dl_info self;
  dladdr(reinterpret_cast<void*>(&cuInit), &self);
  void* library = dlopen(self.dli_fname, RTLD_LAZY | RTLD_NOLOAD);
  *function = nullptr;
  for (const char* form : {"_v3", "_v2", ""}) {
    if (*function == nullptr) *function = dlsym(library, (std::string(symbol) + form).c_str());
  }
  if (status != nullptr) *status = *function == nullptr;
  return *function == nullptr ? kNotFound : kSuccess;
}

// NVRTC asks for tables that nobody has described, and does without.
CALL(cuGetExportTable, const void** table, const void*) {
  *table = nullptr;
  return kNotFound;
}

CALL(cuDriverGetVersion, int* version) {
  *version = 13000;
  return kSuccess;
}

CALL(cuDeviceGetCount, int* count) {
  *count = 1;
  return kSuccess;
}

CALL(cuDeviceGet, int* device, int number) {
  *device = number;
  return number == 0 ? kSuccess : kInvalidDevice;
}

CALL(cuDeviceGetName, char* name, int length, int) {
  std::strncpy(name, "Stand-in", length);
  return kSuccess;
}

CALL(cuDeviceGetPCIBusId, char* text, int length, int) {
  std::strncpy(text, "0000:1b:00.0", length);
  return kSuccess;
}

CALL(cuDeviceGetAttribute, int* value, int attribute, int) {
  static const std::map<int, int> known = {
      {16, kProcessors}, {38, 1 << 16}, {39, kThreads}, {75, 9}, {76, 0}};  // SMs, L2, threads, capability
  auto found = known.find(attribute);
  if (found == known.end()) return complain("an attribute that the stand-in has not");
  *value = found->second;
  return kSuccess;
}

CALL(cuDevicePrimaryCtxRetain, void** context, int) {
  *context = &state();
  return kSuccess;
}

CALL(cuCtxSetCurrent, void* context) {
  in_context() = context == &state();
  return kSuccess;
}

CALL(cuMemAlloc_v2, void** pointer, size_t nbytes) {
  IN_CONTEXT;
  return allocate(state().memory, pointer, nbytes);
}

CALL(cuMemFree_v2, uintptr_t pointer) {
  IN_CONTEXT;
  return release(state().memory, pointer);
}

CALL(cuMemHostAlloc, void** pointer, size_t nbytes, unsigned) {
  IN_CONTEXT;
  return allocate(state().pinned, pointer, nbytes);
}

CALL(cuMemFreeHost, uintptr_t pointer) {
  IN_CONTEXT;
  return release(state().pinned, pointer);
}

CALL(cuMemcpyHtoD_v2, uintptr_t target, uintptr_t source, size_t nbytes) {
  IN_CONTEXT;
  if (Result refused = reject_in_capture()) return refused;
  if (!within(state().memory, target, nbytes)) return kInvalidValue;
  // As CUDA has it, the call returns when the driver has a copy of what is in pageable memory.
  if (Result failed = run_until(default_stream()->tail)) return failed;
  const auto* bytes = reinterpret_cast<const char*>(source);
  return append(default_stream(), [=, staged = std::vector<char>(bytes, bytes + nbytes)] {
    return copy(target, reinterpret_cast<uintptr_t>(staged.data()), nbytes, target);
  });
}

CALL(cuMemcpyDtoH_v2, uintptr_t target, uintptr_t source, size_t nbytes) {
  IN_CONTEXT;
  if (Result refused = reject_in_capture()) return refused;
  if (Result failed = run_until(default_stream()->tail)) return failed;
  return copy(target, source, nbytes, source) ? kInvalidValue : kSuccess;
}

CALL(cuMemcpyHtoDAsync_v2, uintptr_t target, uintptr_t source, size_t nbytes, void* queue) {
  IN_CONTEXT;
  GET(Stream, stream, queue);
  if (!within(state().pinned, source, nbytes)) return complain("a copy from pageable memory");
  return append(stream, [=] { return copy(target, source, nbytes, target); });
}

CALL(cuMemcpyDtoHAsync_v2, uintptr_t target, uintptr_t source, size_t nbytes, void* queue) {
  IN_CONTEXT;
  GET(Stream, stream, queue);
  if (!within(state().pinned, target, nbytes)) return complain("a copy to pageable memory");
  return append(stream, [=] { return copy(target, source, nbytes, source); });
}

CALL(cuMemcpyDtoDAsync_v2, uintptr_t target, uintptr_t source, size_t nbytes, void* queue) {
  IN_CONTEXT;
  GET(Stream, stream, queue);
  return append(stream, [=] {
    if (!within(state().memory, source, nbytes)) return kIllegalAddress;
    return copy(target, source, nbytes, target);
  });
}

CALL(cuMemsetD8Async, uintptr_t target, unsigned char value, size_t nbytes, void* queue) {
  IN_CONTEXT;
  GET(Stream, stream, queue);
  return append(stream, [=] {
    if (!within(state().memory, target, nbytes)) return kIllegalAddress;
    std::memset(reinterpret_cast<void*>(target), value, nbytes);
    return kSuccess;
  });
}

CALL(cuModuleLoadData, void** module, const void* image) {
  IN_CONTEXT;
  if (Result refused = reject_in_capture()) return refused;
  // The image says itself how long it is: the section headers of an ELF file come last.
  const auto* bytes = static_cast<const unsigned char*>(image);
  // Assembly is of kernels that do nothing.
  const bool ptx = !std::memcmp(bytes, ".version", 8);
  if (!ptx && std::memcmp(bytes, "\177ELF", 4)) return kInvalidImage;
  if (ptx || (idle() && bytes[18] == kForGpus)) {
    *module = new Module;
    return kSuccess;
  }
  uint64_t sections;
  uint16_t size, count;
  std::memcpy(&sections, bytes + 40, 8);
  std::memcpy(&size, bytes + 58, 2);
  std::memcpy(&count, bytes + 60, 2);
  const size_t length = sections + size_t{size} * count;
  const int file = memfd_create("kernels.so", 0);
  if (write(file, bytes, length) != static_cast<ssize_t>(length)) return kInvalidImage;
  auto* made = new Module;
  made->library = dlopen(("/proc/self/fd/" + std::to_string(file)).c_str(), RTLD_NOW | RTLD_LOCAL);
  // Left open: another file under the same name would be taken for this one.
  if (!made->library) return kInvalidImage;
  *module = made;
  return kSuccess;
}

CALL(cuModuleUnload, void* handle) {
  IN_CONTEXT;
  if (Result refused = reject_in_capture()) return refused;
  GET(Module, module, handle);
  module->alive = false;
  return kSuccess;
}

CALL(cuModuleGetFunction, void** function, void* handle, const char* entry) {
  IN_CONTEXT;
  GET(Module, module, handle);
  if (!module->library) {
    *function = new Function{module, compute_nothing, 0, true, 48 << 10};
    return kSuccess;
  }
  void* code = dlsym(module->library, entry);
  auto* parameters =
      static_cast<int*>(dlsym(module->library, (std::string(entry) + "_parameters").c_str()));
  if (!code || !parameters) return kNotFound;
  *function = new Function{module, reinterpret_cast<int (*)(void**, const unsigned*)>(code),
                           *parameters,
                           dlsym(module->library, (std::string(entry) + "_waits").c_str()) != nullptr,
                           48 << 10};
  return kSuccess;
}

CALL(cuFuncSetAttribute, void* handle, int attribute, int value) {
  IN_CONTEXT;
  auto* function = static_cast<Function*>(handle);
  if (attribute != 8 || value < 0 || static_cast<unsigned>(value) > kMostShared) {
    return kInvalidValue;
  }
  function->most_shared = value;
  return kSuccess;
}

CALL(cuOccupancyMaxActiveBlocksPerMultiprocessor, int* blocks, void*, int threads, size_t) {
  IN_CONTEXT;
  *blocks = kThreads / threads;
  return kSuccess;
}

namespace {

Result launch(void* handle, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by,
              unsigned bz, unsigned shared, void* queue, void** parameters, void** extra,
              Begin begin) {
  GET(Stream, stream, queue);
  auto* function = static_cast<Function*>(handle);
  if (!function->module->alive) return kInvalidHandle;
  if (uint64_t{gx} * gy * gz == 0 || uint64_t{bx} * by * bz == 0 || bx * by * bz > 1024 ||
      shared > function->most_shared || extra) {
    return kInvalidValue;
  }
  // The values are taken now, as CUDA does.
  std::vector<void*> values;
  for (int n = 0; n < function->parameters; ++n) {
    values.push_back(*static_cast<void**>(parameters[n]));
  }
  const std::vector<unsigned> grid = {gx, gy, gz};
  return append(stream, [=]() mutable {
    if (!function->module->alive) return kIllegalAddress;
    for (void* value : values) {
      if (!within(state().memory, reinterpret_cast<uintptr_t>(value), 1)) return kIllegalAddress;
    }
    return function->code(values.data(), grid.data()) ? kIllegalAddress : kSuccess;
  }, begin);
}

}  // namespace

CALL(cuLaunchKernel, void* handle, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by,
     unsigned bz, unsigned shared, void* queue, void** parameters, void** extra) {
  IN_CONTEXT;
  return launch(handle, gx, gy, gz, bx, by, bz, shared, queue, parameters, extra, Begin::kKernel);
}

#ifndef OLDER_DRIVER
// As in cuda.h.
struct LaunchConfig {
  unsigned grid[3], block[3], shared;
  void* queue;
  struct {
    int id, padding, value[16];
  }* attributes;
  unsigned count;
};

CALL(cuLaunchKernelEx, const LaunchConfig* config, void* handle, void** parameters, void** extra) {
  IN_CONTEXT;
  bool early = false;
  for (unsigned n = 0; n < config->count; ++n) {
    if (config->attributes[n].id != 6) return complain("a launch with an unknown attribute");
    early = config->attributes[n].value[0] != 0;
  }
  const bool waits = static_cast<Function*>(handle)->waits;
  const Begin begin =
      !early ? Begin::kKernel : waits ? Begin::kEarlyAndWaits : Begin::kEarly;
  const auto& [grid, block, shared, queue, attributes, count] = *config;
  return launch(handle, grid[0], grid[1], grid[2], block[0], block[1], block[2], shared, queue,
                parameters, extra, begin);
}
#endif

CALL(cuLaunchCooperativeKernel, void* handle, unsigned gx, unsigned gy, unsigned gz, unsigned bx,
     unsigned by, unsigned bz, unsigned shared, void* queue, void** parameters) {
  IN_CONTEXT;
  if (uint64_t{gx} * gy * gz * bx * by * bz > kProcessors * kThreads) return kTooLarge;
  return launch(handle, gx, gy, gz, bx, by, bz, shared, queue, parameters, nullptr, Begin::kOther);
}

CALL(cuGetErrorName, int, const char** text) {
  *text = "CUDA_ERROR";
  return kSuccess;
}

CALL(cuGetErrorString, int status, const char** text) {
  *text = status == kComplaint ? state().complaint.c_str() : "as the stand-in has it";
  return kSuccess;
}

// What tests ask.
extern "C" void stand_in_seed(unsigned seed) { state().random.seed(seed); }

// Forgets a failure, and work that nobody waited for.
extern "C" void stand_in_recover() {
  for (auto& work : state().pending) work->done = true;
  state().pending.clear();
  state().sticky = kSuccess;
}

extern "C" long stand_in_calls(const char* name) { return state().calls[name]; }

// How many of a kind there are that were not given back.
extern "C" long stand_in_live(const char* kind) {
  const std::string wanted = kind;
  if (wanted == "memory") return static_cast<long>(state().memory.size());
  if (wanted == "pinned") return static_cast<long>(state().pinned.size());
  long count = 0;
  for (Handle* handle : state().handles) count += handle->alive && wanted == handle->kind;
  return count;
}
