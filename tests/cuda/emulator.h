// CUDA C++ of single kernels on a CPU: the threads of a block are fibres, its barriers are real.
#include "fibres.h"

#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define TVM_IOS_PRELUDE
#define TVM_IOS_EMULATOR
#define TVM_IOS_FETCH_WEIGHTS(first, lines)
#define TVM_IOS_AWAIT_EARLIER
#define __global__
#define __device__
#define __forceinline__ inline
#define __launch_bounds__(...)
#define __align__(n) __attribute__((aligned(n)))
#define CUDART_INF_F INFINITY
#define CUDART_NAN_F NAN

typedef unsigned int uint;
typedef unsigned char uchar;
typedef unsigned short ushort;

#if defined(__aarch64__) && defined(__GNUC__) && !defined(__clang__) && __GNUC__ < 13
typedef __fp16 _Float16;  // the name that older compilers have for it in C++
#endif

struct half {
  _Float16 value;
  half() {}
  half(float x) : value(static_cast<_Float16>(x)) {}
  operator float() const { return static_cast<float>(value); }
};
inline half __float2half_rn(float value) { return half(value); }
struct half2 {
  half x, y;
};
struct half4 {
  half x, y, z, w;
};
struct float2 {
  float x, y;
};
struct float3 {
  float x, y, z;
};
struct int2 {
  int x, y;
};
struct int3 {
  int x, y, z;
};
struct int4 {
  int x, y, z, w;
};
struct float4 {
  float x, y, z, w;
};
struct uint4 {
  uint x, y, z, w;
};
inline half2 make_half2(half x, half y) { return {x, y}; }
inline half4 make_half4(half x, half y, half z, half w) { return {x, y, z, w}; }
inline float2 make_float2(float x, float y) { return {x, y}; }
inline float3 make_float3(float x, float y, float z) { return {x, y, z}; }
inline int2 make_int2(int x, int y) { return {x, y}; }
inline int3 make_int3(int x, int y, int z) { return {x, y, z}; }
inline float4 make_float4(float x, float y, float z, float w) { return {x, y, z, w}; }
inline int4 make_int4(int x, int y, int z, int w) { return {x, y, z, w}; }
template <typename T>
inline T max(T a, T b) {
  return a > b ? a : b;
}
template <typename T>
inline T min(T a, T b) {
  return a < b ? a : b;
}
inline long max(long a, int b) { return a > b ? a : b; }
inline long min(long a, int b) { return a < b ? a : b; }
inline float __int_as_float(int bits) {
  float value;
  memcpy(&value, &bits, sizeof value);
  return value;
}

inline float rsqrtf(float x) { return 1.0f / sqrtf(x); }
inline float __expf(float x) { return expf(x); }
inline float __logf(float x) { return logf(x); }
inline float __powf(float x, float y) { return powf(x, y); }
inline float __sinf(float x) { return sinf(x); }
inline float __cosf(float x) { return cosf(x); }

struct Extent {
  int x, y, z;
};
static Extent blockIdx, threadIdx, blockDim, gridDim;

namespace emulator {

constexpr int kMost = 1024, kStack = 1 << 16, kWarp = 32;
fibres::Fibre fibre[kMost];
char* stacks = nullptr;
bool done[kMost];
int current, threads, alive, living[kMost / kWarp];
long progress;
void (*body)();

void Yield() {
  const int own = current;
  const Extent at = threadIdx;
  fibres::pause(fibre[own]);
  current = own;
  threadIdx = at;
}

struct Barrier {
  int arrived = 0;
  long generation = 0;
  void Release() {
    arrived = 0;
    ++generation;
    ++progress;
  }
  void Wait(int expected) {
    const long before = generation;
    if (++arrived >= expected) {
      Release();
    }
    while (generation == before) {
      Yield();
    }
  }
  void Left(int expected) {
    if (arrived && arrived >= expected) {
      Release();
    }
  }
};
Barrier block, warps[kMost / kWarp];

void Enter() {
  for (;;) {
    body();
    const int own = current, warp = own / kWarp;
    done[own] = true;
    ++progress;
    block.Left(--alive);
    warps[warp].Left(--living[warp]);
    fibres::finish(fibre[own]);
  }
}

// Runs a grid; order 1 takes the threads of a block from the last to the first. False: deadlock.
bool Launch(void (*kernel)(), const int* grid, const int* extents, int order) {
  body = kernel;
  gridDim = {grid[0], grid[1], grid[2]};
  blockDim = {extents[0], extents[1], extents[2]};
  threads = extents[0] * extents[1] * extents[2];
  if (!stacks) {
    stacks = static_cast<char*>(malloc(static_cast<size_t>(kMost) * kStack));
  }
  for (int b = 0; b < grid[0] * grid[1] * grid[2]; ++b) {
    const int number = order ? grid[0] * grid[1] * grid[2] - 1 - b : b;
    blockIdx = {number % grid[0], number / grid[0] % grid[1], number / grid[0] / grid[1]};
    alive = threads;
    block = Barrier();
    for (int w = 0; w * kWarp < threads; ++w) {
      living[w] = min(kWarp, threads - w * kWarp);
      warps[w] = Barrier();
    }
    for (int t = 0; t < threads; ++t) {
      done[t] = false;
      fibres::prepare(fibre[t], stacks + static_cast<size_t>(t) * kStack, kStack, Enter);
    }
    while (alive) {
      const long before = progress;
      for (int i = 0; i < threads; ++i) {
        const int t = order ? threads - 1 - i : i;
        if (!done[t]) {
          current = t;
          threadIdx = {t % extents[0], t / extents[0] % extents[1], t / extents[0] / extents[1]};
          fibres::resume(fibre[t]);
        }
      }
      if (progress == before) {
        return false;
      }
    }
  }
  return true;
}

void WarpBarrier() {
  const int warp = current / kWarp;
  warps[warp].Wait(living[warp]);
}

uint64_t slots[kMost];

// What a lane of the warp holds, by a copy that all lanes make together.
template <typename T>
T Exchange(T value, int lane) {
  static_assert(sizeof(T) <= sizeof(slots[0]), "");
  memcpy(&slots[current], &value, sizeof(T));
  WarpBarrier();
  const int own = current % kWarp;
  T other;
  memcpy(&other, &slots[current - own + (lane < 0 || lane >= kWarp ? own : lane)], sizeof(T));
  WarpBarrier();
  return other;
}

}  // namespace emulator

inline void __syncthreads() { emulator::block.Wait(emulator::alive); }
inline void __syncwarp(uint = ~0u) { emulator::WarpBarrier(); }
inline uint __activemask() { return ~0u; }
template <typename T>
inline T __shfl_sync(uint, T value, int lane, int = 32) {
  return emulator::Exchange(value, lane);
}
template <typename T>
inline T __shfl_down_sync(uint, T value, uint by, int = 32) {
  return emulator::Exchange(value, emulator::current % 32 + static_cast<int>(by));
}
template <typename T>
inline T __shfl_xor_sync(uint, T value, int mask, int = 32) {
  return emulator::Exchange(value, (emulator::current % 32) ^ mask);
}

// Tensor cores: what every thread of a warp holds is put together, multiplied and given back.
namespace emulator {

float left[kMost / kWarp][16][16], right[kMost / kWarp][16][8];

float Tf32(float x) {
  uint32_t bits;
  memcpy(&bits, &x, 4);
  bits = (bits + 0x1000u) & ~0x1fffu;  // to nearest, halves away from zero
  memcpy(&x, &bits, 4);
  return x;
}

void Multiply(float* d, int depth) {
  const int warp = current / kWarp, lane = current % kWarp, row = lane / 4, column = lane % 4 * 2;
  WarpBarrier();
  for (int i = 0; i < 4; ++i) {
    float sum = d[i];
    for (int k = 0; k < depth; ++k) {
      sum += left[warp][row + i / 2 * 8][k] * right[warp][k][column + i % 2];
    }
    d[i] = sum;
  }
  WarpBarrier();
}

}  // namespace emulator

inline void multiply_tf32(float* d, const float* a, const float* b) {
  using namespace emulator;
  const int warp = current / kWarp, g = current % kWarp / 4, t = current % 4;
  for (int i = 0; i < 4; ++i) left[warp][g + i % 2 * 8][t + i / 2 * 4] = Tf32(a[i]);
  for (int i = 0; i < 2; ++i) right[warp][t + i * 4][g] = Tf32(b[i]);
  Multiply(d, 8);
}
inline void multiply_half(float* d, const float* a, const float* b) {
  using namespace emulator;
  const int warp = current / kWarp, g = current % kWarp / 4, t = current % 4;
  for (int i = 0; i < 8; ++i) {
    left[warp][g + i / 2 % 2 * 8][t * 2 + i / 4 * 8 + i % 2] = half(a[i]);
  }
  for (int i = 0; i < 4; ++i) right[warp][t * 2 + i / 2 * 8 + i % 2][g] = half(b[i]);
  Multiply(d, 16);
}
