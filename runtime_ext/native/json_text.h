// JSON from a file: whatever is wrong with it is one kind of error.
#ifndef TVM_IOS_NATIVE_JSON_TEXT_H_
#define TVM_IOS_NATIVE_JSON_TEXT_H_

#include <tvm/ffi/extra/json.h>
#include <tvm/ffi/tvm_ffi.h>

#include <cstdint>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

namespace tvm_ios {

namespace ffi = tvm::ffi;

// Data that is not as it should be; says what is wrong.
class Misfit : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

// Whether a text can be a part of a sentence that Python reads.
bool IsUtf8(std::string_view text);

using JsonObject = ffi::json::Object;
using JsonArray = ffi::json::Array;

// All of these throw a Misfit.
JsonObject ParseObject(std::string_view text);
ffi::Any Field(const JsonObject& object, const std::string& key);
std::string Text(const ffi::Any& value);
// A number that counts something.
std::int64_t Natural(const ffi::Any& value);
double Number(const ffi::Any& value);
JsonArray List(const ffi::Any& value);
JsonObject Object(const ffi::Any& value);
std::vector<std::string> Texts(const ffi::Any& value);
std::vector<std::int64_t> Naturals(const ffi::Any& value);

}  // namespace tvm_ios

#endif  // TVM_IOS_NATIVE_JSON_TEXT_H_
