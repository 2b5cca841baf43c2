/* Stands in for NVIDIA's driver where there is none, so that a TVM built with CUDA can be loaded.
   Every call answers CUDA_ERROR_NO_DEVICE. */

#define NO_DEVICE 100
#define ABSENT(name) \
  int name(void) { return NO_DEVICE; }

ABSENT(cuDeviceGetName)
ABSENT(cuFuncSetAttribute)
ABSENT(cuGetErrorName)
ABSENT(cuLaunchKernel)
ABSENT(cuMemsetD32_v2)
ABSENT(cuModuleGetFunction)
ABSENT(cuModuleGetGlobal_v2)
ABSENT(cuModuleLoadData)
ABSENT(cuModuleUnload)
