// A session as a module of TVM's runtime, loaded by path.
#include <tvm/ffi/extra/module.h>
#include <tvm/ffi/reflection/registry.h>

#include "session.h"

namespace tvm_ios {

namespace {

// A port by number or name; numbers count from the end if negative.
std::size_t Find(const std::vector<Port>& ports, const ffi::AnyView& which, const char* what) {
  if (const auto number = which.as<std::int64_t>()) {
    const auto count = static_cast<std::int64_t>(ports.size());
    if (*number >= -count && *number < count) {
      return static_cast<std::size_t>(*number < 0 ? *number + count : *number);
    }
    throw ffi::Error("SessionError",
                     std::string("there is no ") + what + " " + std::to_string(*number) +
                         "; there are " + std::to_string(count),
                     "");
  }
  const std::string name = which.cast<ffi::String>();
  std::string names;
  for (std::size_t i = 0; i < ports.size(); ++i) {
    if (ports[i].name == name) return i;
    names += (names.empty() ? "" : ", ") + ports[i].name;
  }
  throw ffi::Error("SessionError",
                   std::string("there is no ") + what + " '" + name + "'; there are: " + names, "");
}

ffi::Array<ffi::String> Names(const std::vector<Port>& ports) {
  ffi::Array<ffi::String> names;
  for (const Port& port : ports) names.push_back(port.name);
  return names;
}

ffi::Map<ffi::String, ffi::Any> Info(const Port& port) {
  return {{"name", ffi::String(port.name)},
          {"shape", ffi::Shape(port.type.shape)},
          {"dtype", ffi::String(port.type.dtype)}};
}

ffi::Array<ffi::Map<ffi::String, ffi::Any>> Profile(Session* session) {
  ffi::Array<ffi::Map<ffi::String, ffi::Any>> launches;
  const std::vector<std::vector<Span>> spans = session->Profile();
  for (std::size_t lane = 0; lane < spans.size(); ++lane) {
    for (std::size_t launch = 0; launch < spans[lane].size(); ++launch) {
      const Span& span = spans[lane][launch];
      const LaunchName& name = session->launches()[lane][launch];
      launches.push_back({{"lane", static_cast<std::int64_t>(lane)},
                          {"launch", static_cast<std::int64_t>(launch)},
                          {"unit", ffi::String(name.unit)},
                          {"kernel", ffi::String(name.kernel)},
                          {"begin", static_cast<double>(span.begin) * 1e-9},
                          {"end", static_cast<double>(span.end) * 1e-9}});
    }
  }
  return launches;
}

class SessionModuleObj : public ffi::ModuleObj {
 public:
  explicit SessionModuleObj(const Executable& executable) : session_(executable) {}

  const char* kind() const final { return "tvm_ios"; }
  int GetPropertyMask() const final { return ffi::Module::kRunnable; }

  ffi::Optional<ffi::Function> GetFunction(const ffi::String& name) final {
    // Functions keep the module.
    const ffi::Module self = ffi::GetRef<ffi::Module>(this);
    Session* const session = &session_;
    if (name == "set_input") {
      return ffi::Function::FromTyped([self, session](ffi::AnyView which, ffi::TensorView value) {
        session->SetInput(Find(session->inputs(), which, "input"), value);
      });
    }
    if (name == "get_input") {
      return ffi::Function::FromTyped([self, session](ffi::AnyView which) {
        const std::size_t number = Find(session->inputs(), which, "input");
        ffi::Tensor value = session->NewTensor(session->inputs()[number]);
        session->GetInput(number, value);
        return value;
      });
    }
    if (name == "get_output") {
      return ffi::Function::FromPacked([self, session](ffi::PackedArgs arguments,
                                                       ffi::Any* result) {
        if (arguments.size() != 1 && arguments.size() != 2) {
          TVM_FFI_THROW(TypeError) << "get_output takes an output and perhaps a tensor";
        }
        const std::size_t number = Find(session->outputs(), arguments[0], "output");
        if (arguments.size() == 2) {
          session->GetOutput(number, arguments[1].cast<ffi::TensorView>());
          *result = arguments[1];
        } else {
          ffi::Tensor value = session->NewTensor(session->outputs()[number]);
          session->GetOutput(number, value);
          *result = value;
        }
      });
    }
    if (name == "run") return ffi::Function::FromTyped([self, session] { session->Run(); });
    if (name == "close") return ffi::Function::FromTyped([self, session] { session->Close(); });
    if (name == "benchmark") {
      return ffi::Function::FromTyped([self, session](std::int64_t number, std::int64_t repeat) {
        const std::vector<double> seconds = session->Benchmark(number, repeat);
        return ffi::Array<double>(seconds.begin(), seconds.end());
      });
    }
    if (name == "profile") {
      return ffi::Function::FromTyped([self, session] { return Profile(session); });
    }
    for (const bool input : {true, false}) {
      if (auto function = AboutPorts(self, input ? "input" : "output",
                                  input ? &session_.inputs() : &session_.outputs(), name)) {
        return function;
      }
    }
    return std::nullopt;
  }

 private:
  static ffi::Optional<ffi::Function> AboutPorts(const ffi::Module& self, const char* what,
                                                 const std::vector<Port>* ports,
                                                 const std::string& name) {
    const std::string kind(what);
    if (name == "get_num_" + kind + "s") {
      return ffi::Function::FromTyped(
          [self, ports] { return static_cast<std::int64_t>(ports->size()); });
    }
    if (name == "get_" + kind + "_names") {
      return ffi::Function::FromTyped([self, ports] { return Names(*ports); });
    }
    if (name == "get_" + kind + "_name") {
      return ffi::Function::FromTyped([self, ports, what](std::int64_t which) {
        return ffi::String((*ports)[Find(*ports, which, what)].name);
      });
    }
    if (name == "get_" + kind + "_index") {
      return ffi::Function::FromTyped([self, ports, what](ffi::String which) {
        return static_cast<std::int64_t>(Find(*ports, which, what));
      });
    }
    if (name == kind + "_info") {
      return ffi::Function::FromTyped([self, ports, what](ffi::AnyView which) {
        return Info((*ports)[Find(*ports, which, what)]);
      });
    }
    return std::nullopt;
  }

  Session session_;
};

ffi::Module LoadExecutable(const ffi::String& path, const ffi::String& name) {
  return WithOneSentence(name, [&] {
    const Executable executable = OpenExecutable(path, name);
    try {
      return ffi::Module(ffi::make_object<SessionModuleObj>(executable));
    } catch (const ffi::Error& error) {
      // The program names what does not exist, or would wait for ever.
      if (error.kind() != "ValueError") throw;
      throw Misfit(error.message());
    }
  });
}

TVM_FFI_STATIC_INIT_BLOCK() {
  namespace refl = tvm::ffi::reflection;
  refl::GlobalDef()
      // What a file named something.tvm_ios is loaded with.
      .def("ffi.Module.load_from_file.tvm_ios",
           [](const ffi::String& path, const ffi::String&) { return LoadExecutable(path, path); })
      .def("tvm_ios.load_executable",
           [](const ffi::String& path) { return LoadExecutable(path, path); })
      // The same of what was unpacked from a file that sentences are to name.
      .def("tvm_ios.load_unpacked_executable", LoadExecutable);
}

}  // namespace

}  // namespace tvm_ios
