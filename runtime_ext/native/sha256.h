// SHA-256 (FIPS 180-4).
#ifndef TVM_IOS_NATIVE_SHA256_H_
#define TVM_IOS_NATIVE_SHA256_H_

#include <string>
#include <string_view>

namespace tvm_ios {

// Sixty-four hexadecimal digits.
std::string Sha256(std::string_view bytes);

}  // namespace tvm_ios

#endif  // TVM_IOS_NATIVE_SHA256_H_
