// An executable opened without Python: everything in its folder checked.
#ifndef TVM_IOS_NATIVE_EXECUTABLE_H_
#define TVM_IOS_NATIVE_EXECUTABLE_H_

#include <tvm/ffi/extra/module.h>

#include <map>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include "program_file.h"

namespace tvm_ios {

// What the user sets or reads, and the buffer it lies in.
struct Port {
  std::string name;
  std::size_t buffer;
  // As the buffer's: extents may be references.
  BufferType type;
};

struct Constant {
  // Of type, shape and content.
  std::string key;
  Block block;
};

// A file of kernels, and which of the program's it has.
struct Library {
  std::string file;
  std::vector<std::string> symbols;
};

struct Executable {
  // Together they have all kernels of the program.
  std::vector<Library> libraries;
  // The CUDA architecture of the kernels; empty if they are for a CPU.
  std::string arch;
  Program program;
  MemoryPlan memory;
  // By number of the buffer.
  std::map<std::size_t, Constant> constants;
  std::vector<Port> inputs;
  std::vector<Port> outputs;
  // For outputs the inputs that they are in the next run.
  std::vector<std::pair<std::string, std::string>> states;
  // As of ModelSession.
  std::int64_t workers = 1;
};

// Reads the folder that runtime_ext/execution/executable.py wrote; `path` is the folder, or the
// file model.tvm_ios in it, and sentences call it `name`. Weights and kernels of an entry of a
// deployment lie in files that it shares with others. Throws an ffi::Error of kind
// ExecutableError that names the first thing that does not fit, a Misfit, or a std::system_error.
Executable OpenExecutable(const std::string& path, const std::string& name);

// Whether kernels of a shared library need TVM's runtime, which loading them then refuses where it
// is not. Throws an ffi::Error of kind ExecutableError.
bool KernelsCallTvm(const std::string& path);

// A shared library of kernels that is bound now and not in a run, and a kernel of it by its symbol;
// the path is for messages. These throw an ffi::Error of kind ExecutableError.
ffi::Module LoadKernelLibrary(const std::string& path);
ffi::Function KernelOf(const ffi::Module& library, const std::string& path,
                       const std::string& symbol);

// The kernels of these symbols in a shared library.
ffi::Array<ffi::Function> LoadKernels(const std::string& path,
                                      const std::vector<std::string>& symbols);

// What `read` makes of the kernels of each library, in the order of `symbols`; throws a Misfit.
template <typename Kernel, typename Read>
std::vector<Kernel> ReadLibraries(const std::vector<Library>& libraries,
                                  const std::vector<std::string>& symbols, Read read) {
  std::map<std::string, Kernel> kernels;
  for (const Library& library : libraries) {
    auto symbol = library.symbols.begin();
    for (const Kernel& kernel : read(library)) kernels.emplace(*symbol++, kernel);
  }
  std::vector<Kernel> ordered;
  for (const std::string& symbol : symbols) {
    const auto kernel = kernels.find(symbol);
    if (kernel == kernels.end()) throw Misfit("kernel '" + symbol + "' is in no library");
    ordered.push_back(kernel->second);
  }
  return ordered;
}

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
    // It says which of the files.
    throw refusal(std::string("cannot read ") + error.what());
  }
}

}  // namespace tvm_ios

#endif  // TVM_IOS_NATIVE_EXECUTABLE_H_
