#include "model_session.h"

namespace tvm_ios {

void Misuse(const std::string& sentence) { throw ffi::Error("SessionError", sentence, ""); }

BufferType HostTensorType(const std::string& what, const std::string& name,
                          const ffi::TensorView& value) {
  if (value.device().device_type != kDLCPU || !value.IsContiguous()) {
    Misuse(what + " '" + name + "' needs a contiguous tensor in the memory of the CPU");
  }
  return {{value.shape().begin(), value.shape().end()}, ffi::DLDataTypeToString(value.dtype())};
}

char* FirstByte(const ffi::TensorView& value) {
  return static_cast<char*>(value.data_ptr()) + value.byte_offset();
}

void RequireType(const std::string& what, const std::string& name, const BufferType& type,
                 const ffi::TensorView& value) {
  const BufferType given = HostTensorType(what, name, value);
  if (given.shape != type.shape || value.dtype() != type.Element()) {
    Misuse(what + " '" + name + "' is " + type.Name() + " and the tensor is " + given.Name());
  }
}

}  // namespace tvm_ios
