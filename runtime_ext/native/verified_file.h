// Files whose checksums were found right once are not read for them again.
#ifndef TVM_IOS_NATIVE_VERIFIED_FILE_H_
#define TVM_IOS_NATIVE_VERIFIED_FILE_H_

#include <string>

namespace tvm_ios {

// Whether a file has this SHA-256. What entries of a deployment share is read once in a process:
// a file that had it is not read again while its device, inode, size and times of change stay the
// same. Throws std::system_error if it cannot be read.
bool HasSha256(const std::string& path, const std::string& sum);

}  // namespace tvm_ios

#endif  // TVM_IOS_NATIVE_VERIFIED_FILE_H_
