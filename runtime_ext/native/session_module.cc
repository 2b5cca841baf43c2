#include "session_module.h"

namespace tvm_ios {

namespace {

using Plain = ffi::Map<ffi::String, ffi::Any>;

ffi::Array<Plain> AsData(const std::vector<LaunchSpan>& spans) {
  ffi::Array<Plain> launches;
  for (const LaunchSpan& span : spans) {
    launches.push_back({{"lane", span.lane},
                        {"launch", span.launch},
                        {"unit", ffi::String(span.unit)},
                        {"kernel", ffi::String(span.kernel)},
                        {"begin", static_cast<double>(span.begin) * 1e-9},
                        {"end", static_cast<double>(span.end) * 1e-9},
                        {"held_up", static_cast<double>(span.held_up) * 1e-9},
                        {"runner", span.runner}});
  }
  return launches;
}

// What can be asked of inputs and of outputs alike; `what` is one of them.
ffi::Optional<ffi::Function> AboutPorts(const ffi::Module& self, ModelSession* session,
                                        const std::string& what, const std::string& name) {
  const bool input = what == "input";
  const std::vector<std::string>* const names =
      input ? &session->input_names() : &session->output_names();
  if (name == "get_num_" + what + "s") {
    return ffi::Function::FromTyped(
        [self, names] { return static_cast<std::int64_t>(names->size()); });
  }
  if (name == "get_" + what + "_names") {
    return ffi::Function::FromTyped([self, names] {
      ffi::Array<ffi::String> copy;
      for (const std::string& one : *names) copy.push_back(one);
      return copy;
    });
  }
  if (name == "get_" + what + "_name") {
    return ffi::Function::FromTyped([self, names, what](std::int64_t which) {
      return ffi::String((*names)[FindPort(*names, which, what)]);
    });
  }
  if (name == "get_" + what + "_index") {
    return ffi::Function::FromTyped([self, names, what](ffi::String which) {
      return static_cast<std::int64_t>(FindPort(*names, which, what));
    });
  }
  if (name == what + "_info") {
    return ffi::Function::FromTyped([self, session, names, what, input](ffi::AnyView which) {
      const std::size_t number = FindPort(*names, which, what);
      return PortInfo((*names)[number],
                      input ? session->InputType(number) : session->OutputType(number));
    });
  }
  return std::nullopt;
}

}  // namespace

std::size_t FindPort(const std::vector<std::string>& names, const ffi::AnyView& which,
                     const std::string& what) {
  if (const auto number = which.as<std::int64_t>()) {
    const auto count = static_cast<std::int64_t>(names.size());
    if (*number >= -count && *number < count) {
      return static_cast<std::size_t>(*number < 0 ? *number + count : *number);
    }
    Misuse("there is no " + what + " " + std::to_string(*number) + "; there are " +
           std::to_string(count));
  }
  const std::string wanted = which.cast<ffi::String>();
  std::string known;
  for (std::size_t i = 0; i < names.size(); ++i) {
    if (names[i] == wanted) return i;
    known += (known.empty() ? "" : ", ") + names[i];
  }
  Misuse("there is no " + what + " '" + wanted + "'; there are: " + known);
}

ffi::Map<ffi::String, ffi::Any> PortInfo(const std::string& name, const BufferType& type) {
  return {{"name", ffi::String(name)},
          {"shape", ffi::Shape(type.shape)},
          {"dtype", ffi::String(type.dtype)}};
}

ffi::Optional<ffi::Function> SessionFunction(const ffi::Module& self, ModelSession* session,
                                             RequestWorkers* workers, const std::string& name) {
  if (name == "set_input") {
    return ffi::Function::FromTyped([self, session](ffi::AnyView which, ffi::TensorView value) {
      session->SetInput(FindPort(session->input_names(), which, "input"), value);
    });
  }
  if (name == "bind_state") {
    return ffi::Function::FromTyped([self, session](ffi::AnyView output, ffi::AnyView input) {
      session->BindState(FindPort(session->output_names(), output, "output"),
                         FindPort(session->input_names(), input, "input"));
    });
  }
  if (name == "reset_states") {
    return ffi::Function::FromTyped([self, session] { session->ResetStates(); });
  }
  if (name == "get_input") {
    return ffi::Function::FromTyped([self, session](ffi::AnyView which) {
      return session->GetInput(FindPort(session->input_names(), which, "input"));
    });
  }
  if (name == "get_output") {
    return ffi::Function::FromPacked([self, session](ffi::PackedArgs arguments, ffi::Any* result) {
      if (arguments.size() != 1 && arguments.size() != 2) {
        TVM_FFI_THROW(TypeError) << "get_output takes an output and perhaps a tensor";
      }
      const std::size_t number = FindPort(session->output_names(), arguments[0], "output");
      if (arguments.size() == 2) {
        session->GetOutput(number, arguments[1].cast<ffi::TensorView>());
        *result = arguments[1];
      } else {
        *result = session->GetOutput(number);
      }
    });
  }
  if (name == "run") return ffi::Function::FromTyped([self, session] { session->Run(); });
  if (name == "run_many") {
    return ffi::Function::FromPacked(
        [self, session, workers](ffi::PackedArgs arguments, ffi::Any* result) {
          if (arguments.size() != 1 && arguments.size() != 2) {
            TVM_FFI_THROW(TypeError) << "run_many takes requests and perhaps a number of workers";
          }
          const std::int64_t count =
              arguments.size() == 2 ? arguments[1].cast<std::int64_t>() : session->Workers();
          *result = workers->RunMany(arguments[0].cast<ffi::Array<Request>>(), count);
        });
  }
  if (name == "reserve") {
    return ffi::Function::FromTyped([self, session, workers] {
      session->Reserve();
      workers->Reserve();
    });
  }
  if (name == "close") {
    return ffi::Function::FromTyped([self, session, workers] {
      workers->Close();
      session->Close();
    });
  }
  if (name == "benchmark") {
    return ffi::Function::FromTyped([self, session](std::int64_t number, std::int64_t repeat) {
      const std::vector<double> seconds = session->Benchmark(number, repeat);
      return ffi::Array<double>(seconds.begin(), seconds.end());
    });
  }
  if (name == "profile") {
    return ffi::Function::FromTyped([self, session] { return AsData(session->Profile()); });
  }
  if (auto function = AboutPorts(self, session, "input", name)) return function;
  return AboutPorts(self, session, "output", name);
}

}  // namespace tvm_ios
