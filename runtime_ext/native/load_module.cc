// Executables and deployments as modules of TVM's runtime, loaded by path.
#include <tvm/ffi/extra/module.h>
#include <tvm/ffi/reflection/registry.h>

#include <memory>
#include <utility>

#include "deployment_session.h"
#include "session.h"
#include "session_module.h"

namespace tvm_ios {

namespace {

using Plain = ffi::Map<ffi::String, ffi::Any>;

class SessionModuleObj : public ffi::ModuleObj {
 public:
  SessionModuleObj(std::unique_ptr<ModelSession> session, OpenWorker open_worker)
      : session_(std::move(session)), workers_(std::move(open_worker)) {}

  const char* kind() const final { return "tvm_ios"; }
  int GetPropertyMask() const final { return ffi::Module::kRunnable; }

  ffi::Optional<ffi::Function> GetFunction(const ffi::String& name) override {
    return SessionFunction(ffi::GetRef<ffi::Module>(this), session_.get(), &workers_, name);
  }

 private:
  std::unique_ptr<ModelSession> session_;
  RequestWorkers workers_;
};

Plain AsData(const Entry& entry, const Machine& machine) {
  ffi::Array<Plain> inputs;
  for (const TensorType& input : entry.inputs) inputs.push_back(PortInfo(input.name, input.type));
  return {{"id", ffi::String(entry.id)},
          {"arch", ffi::String(entry.arch)},
          {"lanes", entry.lanes},
          {"inputs", inputs},
          {"batch", entry.batch ? ffi::Any(*entry.batch) : ffi::Any()},
          {"padding", entry.padding},
          {"policy", ffi::String(entry.policy)},
          {"latency_ms", entry.latency_ms ? ffi::Any(*entry.latency_ms) : ffi::Any()},
          {"misfit", ffi::String(MachineMisfit(entry, machine))}};
}

class DeploymentModuleObj final : public SessionModuleObj {
 public:
  DeploymentModuleObj(std::unique_ptr<DeploymentSession> session, OpenWorker open_worker)
      : DeploymentModuleObj(session.release(), std::move(open_worker)) {}

  ffi::Optional<ffi::Function> GetFunction(const ffi::String& name) final {
    const ffi::Module self = ffi::GetRef<ffi::Module>(this);
    DeploymentSession* const deployment = deployment_;
    if (name == "entries") {
      return ffi::Function::FromTyped([self, deployment] {
        ffi::Array<Plain> entries;
        for (const Entry& entry : deployment->entries()) {
          entries.push_back(AsData(entry, deployment->machine()));
        }
        return entries;
      });
    }
    if (name == "chosen") {
      return ffi::Function::FromTyped([self, deployment] {
        return AsData(deployment->entries()[deployment->Chosen()], deployment->machine());
      });
    }
    return SessionModuleObj::GetFunction(name);
  }

 private:
  // Takes it.
  DeploymentModuleObj(DeploymentSession* deployment, OpenWorker open_worker)
      : SessionModuleObj(std::unique_ptr<ModelSession>(deployment), std::move(open_worker)),
        deployment_(deployment) {}

  DeploymentSession* deployment_;
};

ffi::Module LoadDeployment(const std::string& folder, std::int64_t lanes) {
  const auto open = [folder, lanes](bool one_lane) {
    return std::make_unique<DeploymentSession>(ReadDeployment(folder), lanes, one_lane);
  };
  return ffi::Module(ffi::make_object<DeploymentModuleObj>(open(false), open));
}

ffi::Module Load(const ffi::String& path, const ffi::String& name) {
  const std::string folder = DeploymentFolder(path);
  if (!folder.empty()) return LoadDeployment(folder, 0);
  // Workers read the files again, and share what was loaded of them.
  const auto open = [path = std::string(path), name = std::string(name)](bool one_lane) {
    return OpenSession(path, name, one_lane);
  };
  return SessionModule(open(false), open);
}

ffi::Module LoadForLanes(const ffi::String& path, std::int64_t lanes) {
  const std::string folder = DeploymentFolder(path);
  if (folder.empty()) {
    RefuseDeployment(std::string(path) + " is no deployment: it lacks deployment.json");
  }
  if (lanes < 1) RefuseDeployment("programs of " + std::to_string(lanes) + " lanes do not run");
  return LoadDeployment(folder, lanes);
}

TVM_FFI_STATIC_INIT_BLOCK() {
  namespace refl = tvm::ffi::reflection;
  refl::GlobalDef()
      // What a file named something.tvm_ios is loaded with.
      .def("ffi.Module.load_from_file.tvm_ios",
           [](const ffi::String& path, const ffi::String&) { return Load(path, path); })
      .def("tvm_ios.load_executable", [](const ffi::String& path) { return Load(path, path); })
      // The same of what was unpacked from a file that sentences are to name.
      .def("tvm_ios.load_unpacked_executable", Load)
      // A deployment's programs of at most so many lanes.
      .def("tvm_ios.load_deployment", LoadForLanes);
}

}  // namespace

ffi::Module SessionModule(std::unique_ptr<ModelSession> session, OpenWorker open_worker) {
  return ffi::Module(
      ffi::make_object<SessionModuleObj>(std::move(session), std::move(open_worker)));
}

}  // namespace tvm_ios
