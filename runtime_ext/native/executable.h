// An executable opened without Python: everything in its folder checked.
#ifndef TVM_IOS_NATIVE_EXECUTABLE_H_
#define TVM_IOS_NATIVE_EXECUTABLE_H_

#include <tvm/ffi/extra/module.h>

#include <map>
#include <string>
#include <system_error>
#include <vector>

#include "program_file.h"

namespace tvm_ios {

// What the user sets or reads, and the buffer it lies in.
struct Port {
  std::string name;
  std::size_t buffer;
  BufferType type;
};

struct Constant {
  // Of type, shape and content.
  std::string key;
  Block block;
};

struct Executable {
  // What holds the kernels.
  std::string kernel_file;
  // The CUDA architecture of the kernels; empty if they are for a CPU.
  std::string arch;
  Program program;
  MemoryPlan memory;
  // By number of the buffer.
  std::map<std::size_t, Constant> constants;
  std::vector<Port> inputs;
  std::vector<Port> outputs;
};

// Reads the folder that runtime_ext/execution/executable.py wrote; `path` is the folder, or the
// file model.tvm_ios in it, and sentences call it `name`. Throws an ffi::Error of kind
// ExecutableError that names the first thing that does not fit, a Misfit, or a std::system_error.
Executable OpenExecutable(const std::string& path, const std::string& name);

// Whether kernels of a shared library need TVM's runtime, which loading them then refuses where it
// is not. Throws an ffi::Error of kind ExecutableError.
bool KernelsCallTvm(const std::string& path);

// The kernels of these symbols in a shared library. Throws an ffi::Error of kind ExecutableError.
ffi::Array<ffi::Function> LoadKernels(const std::string& path,
                                      const std::vector<std::string>& symbols);

// Calls a function that opens an executable, and makes whatever it throws one sentence: an
// ffi::Error of kind ExecutableError.
template <typename Open>
auto WithOneSentence(const std::string& name, Open open) -> decltype(open()) {
  const auto refusal = [](const std::string& sentence) {
    return ffi::Error("ExecutableError", sentence, "");
  };
  try {
    return open();
  } catch (const Misfit& misfit) {
    throw refusal(name + " cannot be used: " + misfit.what() + "; save it again");
  } catch (const std::system_error& error) {
    throw refusal("cannot read " + name + ": " + error.code().message());
  }
}

}  // namespace tvm_ios

#endif  // TVM_IOS_NATIVE_EXECUTABLE_H_
