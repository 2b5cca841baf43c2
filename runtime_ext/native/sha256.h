// SHA-256 (FIPS 180-4).
#ifndef TVM_IOS_NATIVE_SHA256_H_
#define TVM_IOS_NATIVE_SHA256_H_

#include <string>
#include <string_view>

namespace tvm_ios {

// Sixty-four hexadecimal digits; `portably` without the instructions that some processors have.
std::string Sha256(std::string_view bytes, bool portably = false);

}  // namespace tvm_ios

#endif  // TVM_IOS_NATIVE_SHA256_H_
