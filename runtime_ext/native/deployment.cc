#include "deployment.h"

#include <algorithm>
#include <filesystem>
#include <map>
#include <system_error>

#include "sha256.h"

namespace tvm_ios {

namespace {

namespace fs = std::filesystem;

constexpr const char* kRegistry = "deployment.json";
constexpr const char* kFormat = "tvm-ios deployment";
// With programs for ranges of shapes, and without.
constexpr std::int64_t kVersion = 2, kVersionOfShapes = 1;
// The checksum of all bytes before it is the last thing in the file.
constexpr std::string_view kSumKey = "\"sha256\": \"";

std::vector<OpenAxis> ReadOpenAxes(const ffi::Any& list, const TensorType& tensor) {
  std::vector<OpenAxis> axes;
  for (const ffi::Any& item : List(list)) {
    const JsonObject about = Object(item);
    const OpenAxis axis{static_cast<std::size_t>(Natural(Field(about, "axis"))),
                        Text(Field(about, "symbol")), Natural(Field(about, "least")),
                        Natural(Field(about, "most")), Natural(Field(about, "step"))};
    const std::vector<std::int64_t>& shape = tensor.type.shape;
    const bool known = axis.axis < shape.size() && shape[axis.axis] == -1 &&
                       (axes.empty() || axes.back().axis < axis.axis);
    if (!known || axis.step < 1 || !axis.Has(axis.most)) {
      throw Misfit("'" + tensor.name + "' has no range in dimension " + std::to_string(axis.axis));
    }
    axes.push_back(axis);
  }
  return axes;
}

// Requires that dimensions of one symbol are of as many extents, and that no other one is unknown.
void CheckRange(const Entry& entry) {
  std::map<std::string, std::int64_t> steps;
  for (const TensorType& input : entry.inputs) {
    const std::vector<std::int64_t>& shape = input.type.shape;
    if (std::count(shape.begin(), shape.end(), -1) !=
        static_cast<std::ptrdiff_t>(input.open.size())) {
      throw Misfit("'" + input.name + "' of " + entry.id + " has an unknown extent");
    }
    for (const OpenAxis& axis : input.open) {
      if (steps.emplace(axis.symbol, axis.Steps()).first->second != axis.Steps()) {
        throw Misfit("'" + axis.symbol + "' of " + entry.id + " has two ranges");
      }
    }
  }
  if (!steps.empty() && entry.padding) throw Misfit(entry.id + " is of a range and pads rows");
}

std::vector<TensorType> ReadTensorTypes(const ffi::Any& list) {
  std::vector<TensorType> types;
  for (const ffi::Any& item : List(list)) {
    const JsonObject about = Object(item);
    TensorType tensor{Text(Field(about, "name")), {{}, Text(Field(about, "dtype"))}};
    for (const ffi::Any& extent : List(Field(about, "shape"))) {
      const bool unknown = !extent.as<bool>() && extent.as<std::int64_t>() == -1;
      tensor.type.shape.push_back(unknown ? -1 : Natural(extent));
    }
    for (const TensorType& other : types) {
      if (other.name == tensor.name) throw Misfit("'" + tensor.name + "' is there twice");
    }
    if (about.count("open") != 0) tensor.open = ReadOpenAxes(Field(about, "open"), tensor);
    types.push_back(std::move(tensor));
  }
  return types;
}

// The leading extent that all inputs have.
std::optional<std::int64_t> BatchOf(const std::vector<TensorType>& inputs) {
  std::optional<std::int64_t> batch;
  for (const TensorType& input : inputs) {
    const std::vector<std::int64_t>& shape = input.type.shape;
    // An open batch is none.
    if (shape.empty() || shape[0] < 0 || (batch && *batch != shape[0])) return std::nullopt;
    batch = shape[0];
  }
  return batch;
}

// The name of a machine without its end, "2 lanes".
std::string WithoutLanes(const std::string& device) {
  const std::size_t comma = device.rfind(", ");
  if (comma == std::string::npos) return device;
  const std::string end = device.substr(comma + 2);
  const std::size_t digits = end.find_first_not_of("0123456789");
  return digits != 0 && end.substr(std::min(digits, end.size())) == " lanes"
             ? device.substr(0, comma)
             : device;
}

Entry ReadEntry(const JsonObject& about) {
  const ffi::Any batch = Field(about, "batch"), latency = Field(about, "latency_ms"),
                 device = Field(about, "device");
  Entry entry{Text(Field(about, "id")),
              Text(Field(about, "arch")),
              Texts(Field(about, "features")),
              Natural(Field(about, "lanes")),
              ReadTensorTypes(Field(about, "inputs")),
              ReadTensorTypes(Field(about, "outputs")),
              batch == nullptr ? std::nullopt : std::optional(Natural(batch)),
              Field(about, "padding").as<bool>() == true,
              Text(Field(about, "policy")),
              latency == nullptr ? std::nullopt : std::optional(Number(latency)),
              latency == nullptr || device == nullptr
                  ? std::nullopt
                  : std::optional(WithoutLanes(Text(device)))};
  if (entry.id.empty() || entry.id == "." || entry.id == ".." ||
      entry.id.find_first_of(std::string_view("/\0", 2)) != std::string::npos) {
    throw Misfit("'" + entry.id + "' where an entry's name should be");
  }
  if (entry.batch && entry.batch != BatchOf(entry.inputs)) {
    throw Misfit("the inputs of " + entry.id + " have another batch");
  }
  if (entry.padding && !entry.batch) throw Misfit(entry.id + " has no batch");
  CheckRange(entry);
  return entry;
}

// Calls a function that reads a file, and makes what it throws one sentence.
template <typename Read>
auto WithOneSentence(const std::string& path, Read read) -> decltype(read()) {
  try {
    return read();
  } catch (const Misfit& misfit) {
    RefuseDeployment(path + " lacks or misstates something: " + misfit.what() +
                     "; make the deployment again");
  } catch (const std::system_error& error) {
    RefuseDeployment("cannot read " + path + ": " + error.code().message());
  }
}

}  // namespace

void RefuseDeployment(const std::string& sentence) {
  throw ffi::Error("DeploymentError", sentence, "");
}

std::string DeploymentFolder(const std::string& path) {
  std::error_code ignored;
  const fs::path folder =
      fs::is_directory(path, ignored) ? fs::path(path) : fs::absolute(path).parent_path();
  return fs::is_regular_file(folder / kRegistry, ignored) ? folder.string() : "";
}

std::string EntryFolder(const Deployment& deployment, const Entry& entry) {
  return (fs::path(deployment.folder) / "entries" / entry.id).string();
}

std::vector<TensorType> ProgramOutputs(const Deployment& deployment, const Entry& entry) {
  const fs::path folder = EntryFolder(deployment, entry);
  std::error_code ignored;
  if (!fs::exists(folder / "tail.onnx", ignored)) return entry.outputs;
  const std::string path = (folder / "meta.json").string();
  return WithOneSentence(path, [&] {
    return ReadTensorTypes(Field(ParseObject(MappedFile(path).bytes()), "outputs"));
  });
}

std::vector<Entry> ReadEntries(const JsonArray& list) {
  std::vector<Entry> entries;
  for (const ffi::Any& item : list) {
    Entry entry = ReadEntry(Object(item));
    // What is set before a program is chosen is told by name.
    const std::vector<TensorType>& first = entries.empty() ? entry.inputs : entries[0].inputs;
    bool alike = entry.inputs.size() == first.size();
    for (std::size_t i = 0; alike && i < first.size(); ++i) {
      alike = entry.inputs[i].name == first[i].name;
    }
    if (!alike) throw Misfit("the inputs of " + entry.id + " are not those of other entries");
    entries.push_back(std::move(entry));
  }
  return entries;
}

Deployment ReadDeployment(const std::string& folder) {
  const std::string path = (fs::path(folder) / kRegistry).string();
  return WithOneSentence(path, [&]() -> Deployment {
    const MappedFile file(path);
    const JsonObject data = ParseObject(file.bytes());
    if (Text(Field(data, "format")) != kFormat) {
      RefuseDeployment(path + " is not of a " + kFormat);
    }
    const std::int64_t version = Natural(Field(data, "version"));
    if (version != kVersion && version != kVersionOfShapes) {
      RefuseDeployment(path + " is of format version " + std::to_string(version) +
                       " and this tvm-ios reads " + std::to_string(kVersionOfShapes) + " and " +
                       std::to_string(kVersion) + "; make the deployment again with this one");
    }
    const std::size_t sum = file.bytes().rfind(kSumKey);
    if (sum == std::string_view::npos ||
        Text(Field(data, "sha256")) != Sha256(file.bytes().substr(0, sum))) {
      RefuseDeployment(path + " is damaged; make the deployment again");
    }
    return {folder, Text(Field(data, "model")), ReadEntries(List(Field(data, "entries")))};
  });
}

}  // namespace tvm_ios
