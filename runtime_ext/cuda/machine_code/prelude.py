"""The first lines of our CUDA C++, used instead of headers."""

from __future__ import annotations

#: The statement of kernels that may be launched early before they touch memory: it waits until the
#: launches before have ended and what they wrote can be seen, and then lets the next one come.
AWAIT_EARLIER = "TVM_IOS_AWAIT_EARLIER;"
#: The statement before that one in kernels with weights: each thread asks for a line of them in the
#: second-level cache, and waits for none. That is no access to memory, so nothing races with it. It
#: has no branch, by which the compiler would give other registers to all that comes after.
FETCH_WEIGHTS = "TVM_IOS_FETCH_WEIGHTS({first}, {lines});"
#: The attribute of a kernel's function with the number of the parameter that has its weights.
WEIGHTS = "tvm_ios.weights"

#: Bytes of a line of the second-level cache, as in the code below.
CACHE_LINE = 128

#: Not every machine with a compiler has headers, so none are used. Half precision is for storage
#: only; arithmetic converts to float32, as our kernels do anyway.
PRELUDE = """\
#ifndef TVM_IOS_PRELUDE
#define TVM_IOS_PRELUDE
typedef unsigned int uint;
typedef unsigned char uchar;
typedef unsigned short ushort;
#if defined(__CUDACC_RTC__)
typedef signed char int8_t;
typedef short int16_t;
typedef int int32_t;
typedef long long int64_t;
typedef unsigned char uint8_t;
typedef unsigned short uint16_t;
typedef unsigned int uint32_t;
typedef unsigned long long uint64_t;
#else
#include <cstdint>
#endif
#define TVM_IOS_AWAIT_EARLIER \\
  asm volatile("griddepcontrol.wait;" ::: "memory"); \\
  asm volatile("griddepcontrol.launch_dependents;" ::: "memory")
#define TVM_IOS_FETCH_WEIGHTS(first, lines) \\
  asm volatile("{ .reg .pred p; setp.lt.u32 p, %0, " #lines "; @p prefetch.L2 [%1]; }" \\
               :: "r"(blockIdx.x * blockDim.x + threadIdx.x), \\
                  "l"((const char*)first + 128ull * (blockIdx.x * blockDim.x + threadIdx.x)))
#ifndef CUDART_INF_F
#define CUDART_INF_F __int_as_float(0x7f800000)
#define CUDART_NAN_F __int_as_float(0x7fffffff)
#endif
struct __align__(2) half {
  unsigned short bits;
  __device__ half() {}
  __device__ half(float value) { asm("cvt.rn.f16.f32 %0, %1;" : "=h"(bits) : "f"(value)); }
  __device__ operator float() const {
    float value;
    asm("cvt.f32.f16 %0, %1;" : "=f"(value) : "h"(bits));
    return value;
  }
};
__device__ inline half __float2half_rn(float value) { return half(value); }
struct __align__(4) half2 { half x, y; };
struct __align__(8) half4 { half x, y, z, w; };
__device__ inline half2 make_half2(half x, half y) {
  half2 made; made.x = x; made.y = y; return made;
}
__device__ inline half4 make_half4(half x, half y, half z, half w) {
  half4 made; made.x = x; made.y = y; made.z = z; made.w = w; return made;
}
#endif
"""
