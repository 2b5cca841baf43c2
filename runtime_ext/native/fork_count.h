// Finding out that we are in a forked child: threads of the parent do not exist there.
#ifndef TVM_IOS_NATIVE_FORK_COUNT_H_
#define TVM_IOS_NATIVE_FORK_COUNT_H_

#include <cstdint>

namespace tvm_ios {

// How many forks lie between this process and the one that loaded this library.
std::uint64_t ForkCount();

}  // namespace tvm_ios

#endif  // TVM_IOS_NATIVE_FORK_COUNT_H_
