// Constants of an executable: a .safetensors file, and memory that all sessions share.
#ifndef TVM_IOS_NATIVE_PARAMS_FILE_H_
#define TVM_IOS_NATIVE_PARAMS_FILE_H_

#include <map>
#include <string>
#include <string_view>

#include "json_text.h"
#include "memory.h"

namespace tvm_ios {

struct StoredTensor {
  BufferType type;
  std::string_view bytes;
};

// What a .safetensors file holds, by name; points into `file`. Throws a Misfit.
std::map<std::string, StoredTensor> ReadSafetensors(std::string_view file);

// A text of the metadata of a .safetensors file. Throws a Misfit.
std::string SafetensorsMetadata(std::string_view file, const std::string& key);

// Aligned memory of this content, the same for all who ask with this key (the hash of type,
// shape and content) as long as one of them lives. It must not be written to.
Block ShareConstant(const std::string& key, std::string_view bytes);

}  // namespace tvm_ios

#endif  // TVM_IOS_NATIVE_PARAMS_FILE_H_
