#include "executable.h"

#include <dlfcn.h>
#include <sys/utsname.h>

#include <filesystem>
#include <system_error>

#include "cpu_features.h"
#include "params_file.h"
#include "sha256.h"

namespace tvm_ios {

namespace {

namespace fs = std::filesystem;

// The version of package.py's format that is read here.
constexpr std::int64_t kVersion = 3;
constexpr const char* kFormat = "tvm-ios executable";

[[noreturn]] void Refuse(const std::string& sentence) {
  throw ffi::Error("ExecutableError", sentence, "");
}

// The folder of an executable, and what its meta.json says of it.
class Folder {
 public:
  explicit Folder(const std::string& path) : folder_(path) {
    if (!fs::exists(folder_)) Refuse("there is no executable " + path);
    if (fs::is_regular_file(folder_) && folder_.extension() == ".tar") {
      Refuse(path + " is a tar file; unpack it into a folder first, with tar -xf");
    }
    // Not by the loader's file alone: a folder may have any name.
    if (!fs::is_directory(folder_)) folder_ = fs::absolute(folder_).parent_path();
    if (!fs::exists(folder_ / "meta.json")) {
      Refuse(name() + " is not an executable: it lacks meta.json");
    }
    ReadMeta();
    for (const char* needed :
         {"program.json", "memory.json", KernelFile(), "params.safetensors"}) {
      if (files_.count(needed) == 0) Refuse(name() + " lacks " + needed + "; save it again");
    }
    for (const auto& [file, digest] : files_) {
      if (fs::path(file).filename() != file || !fs::is_regular_file(folder_ / file)) {
        Refuse(name() + " lacks " + file + "; save it again");
      }
      if (Sha256(MappedFile(At(file)).bytes()) != digest) Damaged(file);
    }
  }

  std::string name() const { return folder_.string(); }
  std::string At(const std::string& file) const { return (folder_ / file).string(); }
  const JsonObject& meta() const { return meta_; }
  // The CUDA architecture of the kernels; empty if they are for a CPU.
  const std::string& arch() const { return arch_; }
  const char* KernelFile() const { return arch_.empty() ? "kernels.so" : "kernels.safetensors"; }
  JsonObject Json(const std::string& file) const {
    return ParseObject(MappedFile(At(file)).bytes());
  }

 private:
  [[noreturn]] void Damaged(const std::string& file) const {
    Refuse(file + " of " + name() + " is damaged; save it again");
  }

  void ReadMeta() {
    std::string checksum;
    try {
      meta_ = Json("meta.json");
      if (Text(Field(meta_, "format")) != kFormat) Refuse(name() + " is not a " + kFormat);
      const std::int64_t version = Natural(Field(meta_, "version"));
      if (version != kVersion) {
        Refuse(name() + " is of format version " + std::to_string(version) +
               " and this tvm-ios reads " + std::to_string(kVersion) +
               "; save it again with this one");
      }
      checksum = Text(Field(meta_, "checksum"));
      const auto arch = meta_.Get(ffi::String("arch"));
      if (arch && *arch != nullptr) arch_ = Text(*arch);
      for (const auto& [file, digest] : Object(Field(meta_, "files"))) {
        files_.emplace(Text(file), Text(digest));
      }
    } catch (const Misfit&) {
      Damaged("meta.json");
    }
    JsonObject rest;
    for (const auto& [key, value] : meta_) {
      if (Text(key) != "checksum") rest.Set(key, value);
    }
    if (Sha256(SortedJson(rest)) != checksum) Damaged("meta.json");
  }

  fs::path folder_;
  JsonObject meta_;
  std::string arch_;
  std::map<std::string, std::string> files_;
};

void RequireVersion(const Folder& folder) {
  // Kernels depend on the C ABI of tvm-ffi alone; TVM itself need not be here.
  const std::string there = Text(Field(Object(Field(folder.meta(), "versions")), "apache-tvm-ffi"));
  TVMFFIVersion version;
  TVMFFIGetVersion(&version);
  // Patch releases keep the binary interface of kernels.
  const std::string minor =
      std::to_string(version.major) + "." + std::to_string(version.minor) + ".";
  if (there.compare(0, minor.size(), minor) != 0) {
    Refuse(folder.name() + " was made with apache-tvm-ffi " + there + " and here is " + minor +
           std::to_string(version.patch) +
           "; install that version or save it again with this one");
  }
}

void RequireMachine(const Folder& folder) {
  const std::string machine = Text(Field(folder.meta(), "machine"));
  utsname here;
  uname(&here);
  if (machine != here.machine) {
    Refuse(folder.name() + " was made for " + machine + " and this machine is " + here.machine +
           "; optimize the model here");
  }
  const std::set<std::string> present = HostFlags();
  std::string missing;
  for (const ffi::Any& item : List(Field(folder.meta(), "features"))) {
    const std::string feature = LinuxNameOfFeature(Text(item));
    if (feature.empty()) {
      Refuse("CPU feature '" + Text(item) + "' is not one that can be looked for");
    }
    if (present.count(feature) == 0) missing += (missing.empty() ? "" : ", ") + Text(item);
  }
  if (!missing.empty()) {
    Refuse(folder.name() + " was made for " + Text(Field(folder.meta(), "target")) +
           " and this CPU lacks " + missing + "; optimize the model for this machine");
  }
}

ffi::Array<ffi::Function> LoadKernels(const Folder& folder, const Program& program) {
  const std::string path = fs::absolute(folder.At("kernels.so")).string();
  // The kernels take symbols of tvm-ffi from the global scope, where a plugin's libraries are not.
  Dl_info about;
  if (dladdr(reinterpret_cast<const void*>(&TVMFFIGetVersion), &about) != 0) {
    dlopen(about.dli_fname, RTLD_NOW | RTLD_NOLOAD | RTLD_GLOBAL);
  }
  // The loader of tvm-ffi binds lazily: a symbol that is nowhere would end the process in a run.
  void* const bound = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (bound == nullptr) Refuse(path + " cannot be loaded: " + dlerror());
  const ffi::Module library = ffi::Module::LoadFromFile(path);
  // Kernels call TVM's runtime through pointers that loading fills in where that runtime is.
  for (const char* name : {"__TVMBackendAllocWorkspace", "__TVMBackendFreeWorkspace",
                           "__TVMBackendParallelLaunch", "__TVMBackendParallelBarrier"}) {
    void* const* const pointer = static_cast<void* const*>(dlsym(bound, name));
    if (pointer != nullptr && *pointer == nullptr) {
      Refuse(path +
             " cannot be loaded: its kernels need libtvm_runtime.so, so load or link that too");
    }
  }
  dlclose(bound);
  ffi::Array<ffi::Function> kernels;
  for (const std::string& symbol : program.kernels) {
    const auto kernel = library->GetFunction(symbol);
    if (!kernel.has_value()) Refuse(path + " cannot be loaded: it has no kernel " + symbol);
    kernels.push_back(*kernel);
  }
  return kernels;
}

std::map<std::size_t, Constant> LoadConstants(const Folder& folder, const Program& program) {
  const JsonObject keys = Object(Field(folder.meta(), "constants"));
  const MappedFile file(folder.At("params.safetensors"));
  const std::map<std::string, StoredTensor> stored = ReadSafetensors(file.bytes());
  std::map<std::size_t, Constant> constants;
  for (std::size_t i = 0; i < program.buffers.size(); ++i) {
    const Buffer& buffer = program.buffers[i];
    if (buffer.role != "constant") continue;
    const auto key = keys.Get(ffi::String(buffer.name));
    const auto found = key ? stored.find(Text(*key)) : stored.end();
    if (found == stored.end()) {
      Refuse(folder.name() + " lacks the constant '" + buffer.name + "'; save it again");
    }
    const auto& [name, tensor] = *found;
    if (!(tensor.type == buffer.type)) {
      throw Misfit("constant '" + buffer.name + "' is " + tensor.type.Name() + ", not " +
                   buffer.type.Name());
    }
    const std::string content = name + " " + tensor.type.Name();
    constants.emplace(i, Constant{content, ShareConstant(content, tensor.bytes)});
  }
  return constants;
}

std::vector<Port> ReadPorts(const ffi::Any& value, const Program& program) {
  std::vector<Port> ports;
  for (const ffi::Any& item : List(value)) {
    const JsonObject about = Object(item);
    const std::string buffer = Text(Field(about, "buffer"));
    Port port{Text(Field(about, "name")), 0,
              {Naturals(Field(about, "shape")), Text(Field(about, "dtype"))}};
    while (port.buffer < program.buffers.size() && program.buffers[port.buffer].name != buffer) {
      ++port.buffer;
    }
    if (port.buffer == program.buffers.size()) {
      throw Misfit("'" + port.name + "' belongs to buffer '" + buffer + "', of none");
    }
    const BufferType& type = program.buffers[port.buffer].type;
    if (!(port.type == type)) {
      throw Misfit("'" + port.name + "' is " + port.type.Name() + " but its buffer is " +
                   type.Name());
    }
    const std::size_t whole = program.buffers[port.buffer].whole;
    if (program.buffers[whole].planned(whole)) {
      throw Misfit("'" + port.name + "' lies in buffer '" + buffer +
                   "', whose memory others may take");
    }
    ports.push_back(std::move(port));
  }
  return ports;
}

}  // namespace

Executable OpenExecutable(const std::string& path) {
  try {
    const Folder folder(path);
    Executable made;
    made.arch = folder.arch();
    if (made.arch.empty()) {
      RequireVersion(folder);
      RequireMachine(folder);
    }
    made.program = ReadProgram(folder.Json("program.json"));
    made.memory = ReadMemoryPlan(folder.Json("memory.json"), made.program);
    made.inputs = ReadPorts(Field(folder.meta(), "inputs"), made.program);
    made.outputs = ReadPorts(Field(folder.meta(), "outputs"), made.program);
    made.constants = LoadConstants(folder, made.program);
    if (made.arch.empty()) {
      made.kernels = LoadKernels(folder, made.program);
    } else {
      const MappedFile file(folder.At(folder.KernelFile()));
      made.cuda_kernels = ReadCudaKernels(file.bytes(), made.arch, made.program.kernels);
    }
    return made;
  } catch (const Misfit& misfit) {
    Refuse(path + " cannot be used: " + misfit.what() + "; save it again");
  } catch (const std::system_error& error) {
    Refuse("cannot read " + path + ": " + error.code().message());
  }
}

}  // namespace tvm_ios
