// An executable opened without Python: everything in its folder checked, kernels loaded.
#ifndef TVM_IOS_NATIVE_EXECUTABLE_H_
#define TVM_IOS_NATIVE_EXECUTABLE_H_

#include <tvm/ffi/extra/module.h>

#include <map>
#include <string>
#include <vector>

#include "cuda_kernels.h"
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
  // The CUDA architecture of the kernels; empty if they are for a CPU.
  std::string arch;
  Program program;
  MemoryPlan memory;
  // Those of a CPU, or those of a GPU.
  ffi::Array<ffi::Function> kernels;
  std::vector<CudaKernel> cuda_kernels;
  // By number of the buffer.
  std::map<std::size_t, Constant> constants;
  std::vector<Port> inputs;
  std::vector<Port> outputs;
};

// Opens a folder that runtime_ext/execution/executable.py wrote; `path` is the folder, or the file
// model.tvm_ios in it. Throws an ffi::Error of kind ExecutableError: one sentence that names the
// first thing that does not fit, as runtime_ext/execution/executable.py does.
Executable OpenExecutable(const std::string& path);

}  // namespace tvm_ios

#endif  // TVM_IOS_NATIVE_EXECUTABLE_H_
