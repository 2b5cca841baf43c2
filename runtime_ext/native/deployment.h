// What the folder of a deployment says of its programs, in deployment.json.
#ifndef TVM_IOS_NATIVE_DEPLOYMENT_H_
#define TVM_IOS_NATIVE_DEPLOYMENT_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "json_text.h"
#include "memory.h"

namespace tvm_ios {

// An input or output of a model; an extent that only the data tell is -1.
struct TensorType {
  std::string name;
  BufferType type;
};

// A program of a deployment, as tvm_ios/deployment/entry.py describes it.
struct Entry {
  std::string id;
  // What its kernels are compiled for: x86-64-v3, sm_90.
  std::string arch;
  std::vector<std::string> features;
  std::int64_t lanes;
  std::vector<TensorType> inputs;
  std::vector<TensorType> outputs;
  // The leading extent that all inputs have, if they have one.
  std::optional<std::int64_t> batch;
  // Whether it may be given fewer rows than its batch.
  bool padding;
  std::string policy;
  // Not if it was not measured.
  std::optional<double> latency_ms;
  // Which kind of machine it was measured on, but for the lanes.
  std::optional<std::string> machine;

  bool OnGpu() const { return arch.rfind("sm_", 0) == 0; }
};

struct Deployment {
  std::string folder;
  std::string model;
  std::vector<Entry> entries;
};

[[noreturn]] void RefuseDeployment(const std::string& sentence);

// The folder of a deployment, given it or the file model.tvm_ios in it; empty if that is none.
std::string DeploymentFolder(const std::string& path);

// Reads deployment.json. Throws an ffi::Error of kind DeploymentError.
Deployment ReadDeployment(const std::string& folder);

// The folder of an entry, an executable.
std::string EntryFolder(const Deployment& deployment, const Entry& entry);

// The outputs of an entry's program, without the end of the model that runs after it on another
// runtime. Throws an ffi::Error of kind DeploymentError.
std::vector<TensorType> ProgramOutputs(const Deployment& deployment, const Entry& entry);

// Entries as deployment.json has them. Throws a Misfit.
std::vector<Entry> ReadEntries(const JsonArray& list);

}  // namespace tvm_ios

#endif  // TVM_IOS_NATIVE_DEPLOYMENT_H_
