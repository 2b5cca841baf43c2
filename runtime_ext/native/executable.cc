#include "executable.h"

#include <dlfcn.h>
#include <sys/utsname.h>

#include <filesystem>
#include <sstream>
#include <utility>

#include "cpu_features.h"
#include "params_file.h"
#include "shape_binding.h"
#include "tvm_runtime.h"
#include "verified_file.h"

namespace tvm_ios {

namespace {

namespace fs = std::filesystem;

// What package.py writes, and what it wrote before.
constexpr std::int64_t kVersion = 4;
constexpr std::int64_t kVersionBefore = 3;
// Its kernels lie in several files, or files are shared with other entries of a deployment.
constexpr std::int64_t kVersionOfParts = 5;
constexpr const char* kFormat = "tvm-ios executable";
constexpr const char* kMeta = "meta.json";
constexpr const char* kSums = "SHA256SUMS";

[[noreturn]] void Refuse(const std::string& sentence) {
  throw ffi::Error("ExecutableError", sentence, "");
}

// Whether it is the name of a file in the folder, or of one that entries of a deployment share:
// by SHA-256 in ../../weights or ../../kernels. A name never leads elsewhere.
bool IsFileName(const std::string& name) {
  std::string file = name;
  for (const char* shared : {"../../weights/", "../../kernels/"}) {
    if (name.rfind(shared, 0) != 0) continue;
    file = name.substr(std::string(shared).size());
    if (file.size() < 65 || file[64] != '.' ||
        file.find_first_not_of("0123456789abcdef") != 64) {
      return false;
    }
  }
  return file != "." && file != ".." && fs::path(file).filename() == file;
}

// The folder of an executable, and what its meta.json says of it.
class Folder {
 public:
  Folder(const std::string& path, std::string name) : folder_(path), name_(std::move(name)) {
    if (!fs::exists(folder_)) Refuse("there is no executable " + name_);
    if (fs::is_regular_file(folder_) && folder_.extension() == ".tar") {
      Refuse(name_ + " is a tar file; unpack it into a folder first, with tar -xf");
    }
    // Not by the loader's file alone: a folder may have any name.
    if (!fs::is_directory(folder_)) folder_ = fs::absolute(folder_).parent_path();
    if (!fs::exists(folder_ / kMeta)) Refuse(name_ + " is not an executable: it lacks meta.json");
    if (fs::exists(folder_ / kSums)) ReadSums();
    ReadMeta();
    for (const char* needed : {"program.json", "memory.json", "schedule.json", "model.tvm_ios"}) {
      Require(needed);
    }
    if (!meta_.Get(ffi::String("weights"))) Require("params.safetensors");
    for (const auto& [file, sum] : sums_) Verify(file, sum);
  }

  const std::string& name() const { return name_; }
  std::string At(const std::string& file) const { return (folder_ / file).string(); }
  const JsonObject& meta() const { return meta_; }
  // The CUDA architecture of the kernels; empty if they are for a CPU.
  const std::string& arch() const { return arch_; }
  // The files of kernels, of which together `symbols` are needed.
  std::vector<Library> Libraries(const std::vector<std::string>& symbols) const {
    const auto several = meta_.Get(ffi::String("libraries"));
    if (!several) {
      const char* file = arch_.empty() ? "kernels.so" : "kernels.safetensors";
      return {Library{Require(file), symbols}};
    }
    std::vector<Library> libraries;
    for (const auto& [file, names] : Object(*several)) {
      libraries.push_back({Require(Text(file)), Texts(names)});
    }
    return libraries;
  }
  // The file of a constant.
  std::string ParamsFile(const std::string& key) const {
    const auto shared = meta_.Get(ffi::String("weights"));
    return Require(shared ? Text(*shared) + "/" + key + ".safetensors" : "params.safetensors");
  }
  JsonObject Json(const std::string& file) const {
    return ParseObject(MappedFile(At(file)).bytes());
  }

 private:
  [[noreturn]] void Damaged(const std::string& file) const {
    Refuse(file + " of " + name_ + " is damaged; save it again");
  }
  [[noreturn]] void Lacks(const std::string& file) const {
    Refuse(name_ + " lacks " + file + "; save it again");
  }

  // Where a file is whose checksum is known.
  std::string Require(const std::string& file) const {
    if (sums_.count(file) == 0) Lacks(file);
    return At(file);
  }

  void Verify(const std::string& file, const std::string& sum) const {
    if (!IsFileName(file) || !fs::is_regular_file(folder_ / file)) Lacks(file);
    if (!HasSha256(At(file), sum)) Damaged(file);
  }

  // Lines as sha256sum writes them: digits, two spaces, a file's name. What meta.json says is
  // believed only when it is known to be as it was written.
  void ReadSums() {
    const MappedFile sums(At(kSums));
    if (!IsUtf8(sums.bytes())) Damaged(kSums);
    std::istringstream lines{std::string(sums.bytes())};
    for (std::string line; std::getline(lines, line);) {
      if (line.size() <= 66 || line.compare(64, 2, "  ") != 0) Damaged(kSums);
      sums_[line.substr(66)] = line.substr(0, 64);
    }
    if (sums_.count(kMeta) == 0) Damaged(kSums);
    Verify(kMeta, sums_[kMeta]);
  }

  void ReadMeta() {
    try {
      meta_ = Json(kMeta);
      if (Text(Field(meta_, "format")) != kFormat) Refuse(name_ + " is not a " + kFormat);
      const std::int64_t version = Natural(Field(meta_, "version"));
      if (version == kVersionBefore) {
        // It has the other files' checksums in meta.json, and one of meta.json's own that is of a
        // text which only Python writes; this one is left out.
        for (const auto& [file, sum] : Object(Field(meta_, "files"))) sums_[Text(file)] = Text(sum);
      } else if (version != kVersion && version != kVersionOfParts) {
        Refuse(name_ + " is of format version " + std::to_string(version) +
               " and this tvm-ios reads " + std::to_string(kVersion) +
               "; save it again with this one");
      } else if (sums_.empty()) {
        Lacks(kSums);
      }
      const auto runtime = meta_.Get(ffi::String("runtime"));
      if (runtime && *runtime != nullptr) {
        Refuse(name_ + " is " + Text(Field(meta_, "title")) +
               ", which was faster than every executable; `tvm-ios run` and Python run it");
      }
      const auto arch = meta_.Get(ffi::String("arch"));
      if (arch && *arch != nullptr) arch_ = Text(*arch);
    } catch (const Misfit&) {
      Damaged(kMeta);
    }
  }

  fs::path folder_;
  std::string name_;
  JsonObject meta_;
  std::string arch_;
  // By file.
  std::map<std::string, std::string> sums_;
};

void RequireVersion(const Folder& folder) {
  // Kernels depend on the C ABI of tvm-ffi alone; TVM itself need not be here.
  const std::string compiled_with =
      Text(Field(Object(Field(folder.meta(), "versions")), "apache-tvm-ffi"));
  TVMFFIVersion version;
  TVMFFIGetVersion(&version);
  // Patch releases keep the binary interface of kernels.
  const std::string minor =
      std::to_string(version.major) + "." + std::to_string(version.minor) + ".";
  if (compiled_with.compare(0, minor.size(), minor) != 0) {
    Refuse(folder.name() + " was made with apache-tvm-ffi " + compiled_with + " and here is " +
           minor + std::to_string(version.patch) +
           "; install that version or save it again with this one");
  }
}

void RequireMachine(const Folder& folder) {
  const std::string machine = Text(Field(folder.meta(), "machine"));
  utsname host;
  uname(&host);
  if (machine != host.machine) {
    Refuse(folder.name() + " was made for " + machine + " and this machine is " + host.machine +
           "; optimize the model here");
  }
  std::string missing;
  for (const std::string& name : MissingFeatures(Texts(Field(folder.meta(), "features")))) {
    missing += (missing.empty() ? "" : ", ") + name;
  }
  if (!missing.empty()) {
    Refuse(folder.name() + " was made for " + Text(Field(folder.meta(), "target")) +
           " and this CPU lacks " + missing + "; optimize the model for this machine");
  }
}

[[noreturn]] void LacksConstant(const Folder& folder, const std::string& name) {
  Refuse(folder.name() + " lacks the constant '" + name + "'; save it again");
}

struct ParamsFile {
  explicit ParamsFile(const std::string& path)
      : file(path), stored(ReadSafetensors(file.bytes())) {}

  MappedFile file;
  std::map<std::string, StoredTensor> stored;
};

std::map<std::size_t, Constant> LoadConstants(const Folder& folder, const Program& program) {
  const JsonObject keys = Object(Field(folder.meta(), "constants"));
  // By path: one that has all, or one for each.
  std::map<std::string, ParamsFile> files;
  std::map<std::size_t, Constant> constants;
  for (std::size_t i = 0; i < program.buffers.size(); ++i) {
    const Buffer& buffer = program.buffers[i];
    if (buffer.role != "constant") continue;
    const auto key = keys.Get(ffi::String(buffer.name));
    if (!key) LacksConstant(folder, buffer.name);
    const std::string path = folder.ParamsFile(Text(*key));
    const ParamsFile& file = files.try_emplace(path, path).first->second;
    const auto entry = file.stored.find(Text(*key));
    if (entry == file.stored.end()) LacksConstant(folder, buffer.name);
    const auto& [name, tensor] = *entry;
    if (!(tensor.type == buffer.type)) {
      throw Misfit("constant '" + buffer.name + "' is " + tensor.type.Name() + ", not " +
                   buffer.type.Name());
    }
    const std::string content = name + " " + tensor.type.Name();
    constants.emplace(i, Constant{content, ShareConstant(content, tensor.bytes)});
  }
  return constants;
}

// Extents that are open are -1.
std::vector<std::int64_t> ReadShape(const ffi::Any& value) {
  std::vector<std::int64_t> shape;
  for (const ffi::Any& item : List(value)) {
    const auto extent = item.as<std::int64_t>();
    shape.push_back(extent && *extent == -1 ? -1 : Natural(item));
  }
  return shape;
}

std::vector<Port> ReadPorts(const ffi::Any& value, const Program& program) {
  std::vector<Port> ports;
  for (const ffi::Any& item : List(value)) {
    const JsonObject about = Object(item);
    const std::string buffer = Text(Field(about, "buffer"));
    Port port{Text(Field(about, "name")), 0,
              {ReadShape(Field(about, "shape")), Text(Field(about, "dtype"))}};
    while (port.buffer < program.buffers.size() && program.buffers[port.buffer].name != buffer) {
      ++port.buffer;
    }
    if (port.buffer == program.buffers.size()) {
      throw Misfit("'" + port.name + "' belongs to buffer '" + buffer + "', of none");
    }
    const BufferType& type = program.buffers[port.buffer].type;
    if (!(port.type == KnownType(type))) {
      throw Misfit("'" + port.name + "' is " + port.type.Name() + " but its buffer is " +
                   KnownType(type).Name());
    }
    port.type = type;
    const std::size_t whole = program.buffers[port.buffer].whole;
    if (program.buffers[whole].planned(whole)) {
      throw Misfit("'" + port.name + "' lies in buffer '" + buffer +
                   "', whose memory others may take");
    }
    ports.push_back(std::move(port));
  }
  return ports;
}

std::int64_t ReadWorkers(const Folder& folder, const Program& program) {
  const auto throughput = Object(Field(folder.meta(), "notes")).Get(ffi::String("throughput"));
  if (throughput) {
    const std::int64_t workers = Natural(Field(Object(*throughput), "workers"));
    if (workers > 0) return workers;
  }
  return folder.arch().empty() ? static_cast<std::int64_t>(program.lanes.size()) : 1;
}

std::vector<std::pair<std::string, std::string>> ReadStates(const Folder& folder) {
  std::vector<std::pair<std::string, std::string>> states;
  const auto saved = Object(Field(folder.meta(), "notes")).Get(ffi::String("states"));
  if (!saved) return states;
  for (const auto& [output, input] : Object(*saved)) states.emplace_back(Text(output), Text(input));
  return states;
}

}  // namespace

Executable OpenExecutable(const std::string& path, const std::string& name) {
  const Folder folder(path, name);
  Executable executable;
  executable.arch = folder.arch();
  if (executable.arch.empty()) {
    RequireVersion(folder);
    RequireMachine(folder);
  }
  executable.program = ReadProgram(folder.Json("program.json"));
  const Program& program = executable.program;
  executable.libraries = folder.Libraries(program.kernels);
  executable.memory = ReadMemoryPlan(folder.Json("memory.json"), program);
  executable.inputs = ReadPorts(Field(folder.meta(), "inputs"), program);
  executable.outputs = ReadPorts(Field(folder.meta(), "outputs"), program);
  executable.constants = LoadConstants(folder, program);
  executable.states = ReadStates(folder);
  executable.workers = ReadWorkers(folder, program);
  return executable;
}

bool KernelsCallTvm(const std::string& file) {
  const std::string path = fs::absolute(file).string();
  void* const library = dlopen(path.c_str(), RTLD_LAZY | RTLD_LOCAL);
  if (library == nullptr) Refuse(path + " cannot be loaded: " + dlerror());
  const bool call = CallTvmRuntime(library);
  dlclose(library);
  return call;
}

ffi::Module LoadKernelLibrary(const std::string& file) {
  const std::string path = fs::absolute(file).string();
  // The kernels take symbols of tvm-ffi from the global scope, where a plugin's libraries are not.
  Dl_info about;
  if (dladdr(reinterpret_cast<const void*>(&TVMFFIGetVersion), &about) != 0) {
    dlopen(about.dli_fname, RTLD_NOW | RTLD_NOLOAD | RTLD_GLOBAL);
  }
  // The loader of tvm-ffi binds lazily: a symbol that is nowhere would end the process in a run.
  void* const bound = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (bound == nullptr) Refuse(path + " cannot be loaded: " + dlerror());
  const ffi::Module library = ffi::Module::LoadFromFile(path);
  if (!HaveTvmRuntime(bound)) {
    Refuse(path + " cannot be loaded: its kernels need libtvm_runtime.so, so load or link that too");
  }
  dlclose(bound);
  return library;
}

ffi::Function KernelOf(const ffi::Module& library, const std::string& path,
                       const std::string& symbol) {
  const auto kernel = library->GetFunction(symbol);
  if (!kernel.has_value()) Refuse(path + " cannot be loaded: it has no kernel " + symbol);
  return *kernel;
}

ffi::Array<ffi::Function> LoadKernels(const std::string& path,
                                      const std::vector<std::string>& symbols) {
  const ffi::Module library = LoadKernelLibrary(path);
  ffi::Array<ffi::Function> kernels;
  for (const std::string& symbol : symbols) kernels.push_back(KernelOf(library, path, symbol));
  return kernels;
}

}  // namespace tvm_ios
