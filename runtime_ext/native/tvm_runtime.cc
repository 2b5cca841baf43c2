#include "tvm_runtime.h"

#include <dlfcn.h>
#include <tvm/ffi/function.h>

namespace tvm_ios {

namespace {

// Pointers through which kernels call the runtime. Loading fills them in where that runtime is.
constexpr const char* kPointers[] = {"__TVMBackendAllocWorkspace", "__TVMBackendFreeWorkspace",
                                     "__TVMBackendParallelLaunch", "__TVMBackendParallelBarrier"};
// What finds functions by name; it is tvm-ffi's own, and always there.
constexpr const char* kLookup = "__TVMFFIEnvModLookupFromImports";
// A function that every such runtime registers.
constexpr const char* kRegistered = "runtime.NumThreads";

}  // namespace

bool CallTvmRuntime(void* library) {
  for (const char* name : kPointers) {
    if (dlsym(library, name) != nullptr) return true;
  }
  return dlsym(library, kLookup) != nullptr;
}

bool HaveTvmRuntime(void* library) {
  for (const char* name : kPointers) {
    void* const* const pointer = static_cast<void* const*>(dlsym(library, name));
    if (pointer != nullptr && *pointer == nullptr) return false;
  }
  return dlsym(library, kLookup) == nullptr ||
         tvm::ffi::Function::GetGlobal(kRegistered).has_value();
}

}  // namespace tvm_ios
