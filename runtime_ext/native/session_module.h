// A session as a module of TVM's runtime.
#ifndef TVM_IOS_NATIVE_SESSION_MODULE_H_
#define TVM_IOS_NATIVE_SESSION_MODULE_H_

#include <tvm/ffi/extra/module.h>

#include <memory>
#include <string>
#include <vector>

#include "model_session.h"
#include "request_workers.h"

namespace tvm_ios {

// An input's or output's place, by its name, or by its number, which counts from the end if
// negative; misuse if there is none. `what` is "input" or "output".
std::size_t FindPort(const std::vector<std::string>& names, const ffi::AnyView& which,
                     const std::string& what);

// Name, shape and type as plain data.
ffi::Map<ffi::String, ffi::Any> PortInfo(const std::string& name, const BufferType& type);

// The functions that all sessions have; docs/runtime_module.md lists them. Functions keep the
// module that has the session.
ffi::Optional<ffi::Function> SessionFunction(const ffi::Module& self, ModelSession* session,
                                             RequestWorkers* workers, const std::string& name);

// A module of a session, with workers that are opened as they are needed.
ffi::Module SessionModule(std::unique_ptr<ModelSession> session, OpenWorker open_worker);

}  // namespace tvm_ios

#endif  // TVM_IOS_NATIVE_SESSION_MODULE_H_
