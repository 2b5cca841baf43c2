// What the folder of a deployment says of its programs, in deployment.json.
#ifndef TVM_IOS_NATIVE_DEPLOYMENT_H_
#define TVM_IOS_NATIVE_DEPLOYMENT_H_

#include <algorithm>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "json_text.h"
#include "memory.h"

namespace tvm_ios {

// The extents that an open dimension of an input may have: least, least + step and so on to most. All
// dimensions of one symbol are at the same of these numbers of steps.
struct OpenAxis {
  std::size_t axis;
  std::string symbol;
  std::int64_t least;
  std::int64_t most;
  std::int64_t step;

  bool operator==(const OpenAxis& other) const {
    return axis == other.axis && symbol == other.symbol && least == other.least &&
           most == other.most && step == other.step;
  }
  std::int64_t Steps() const { return (most - least) / step; }
  bool Has(std::int64_t extent) const {
    return least <= extent && extent <= most && (extent - least) % step == 0;
  }
};

// An input or output of a model; an extent that is open, or that only the data tell, is -1.
struct TensorType {
  std::string name;
  BufferType type;
  // Of an input of a program for a range of shapes, in the order of the axes.
  std::vector<OpenAxis> open = {};

  bool operator==(const TensorType& other) const {
    return name == other.name && type == other.type && open == other.open;
  }
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
  // Whether the program is for a range of shapes.
  bool IsOfRange() const {
    return std::any_of(inputs.begin(), inputs.end(),
                       [](const TensorType& input) { return !input.open.empty(); });
  }
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
