// Kernels that dawdle at random and need no GIL, for the stress test.
#include "../native/random_program.h"

namespace tvm_ios_tests {

TVM_FFI_DLL_EXPORT_TYPED_FUNC(mix_kernel, MixKernel);

}  // namespace tvm_ios_tests
