// Runs the blocks of a generated kernel on one CPU thread, in random turns: every CUDA thread is
// a fibre. Blocks that spin give their turn away, so a wait that is missing shows as a wrong
// result in some order, and one that nothing satisfies as blocks that make no progress.
#include "fibres.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <memory>
#include <random>
#include <vector>

#define __global__
#define __device__
#define __forceinline__ inline
#define __launch_bounds__(...)
#define __shared__
#define __align__(n) __attribute__((aligned(n)))
#define CUDART_INF_F INFINITY
typedef unsigned int uint;
typedef unsigned char uchar;
typedef unsigned short ushort;
using std::max;
using std::min;
struct float2 { float x, y; };
struct float4 { float x, y, z, w; };
struct int2 { int x, y; };
struct int4 { int x, y, z, w; };
static inline float2 make_float2(float a, float b) { return {a, b}; }
static inline float4 make_float4(float a, float b, float c, float d) { return {a, b, c, d}; }
static inline int2 make_int2(int a, int b) { return {a, b}; }
static inline int4 make_int4(int a, int b, int c, int d) { return {a, b, c, d}; }

struct Dimension { int x, y, z; };
static Dimension blockIdx, threadIdx, gridDim;
static const int kWarp = 32;
static const size_t kStack = 1 << 16, kArena = 1 << 18;
alignas(128) unsigned char arena[kArena];

struct Barrier { int arrived = 0, generation = 0; };
struct Block {
  std::vector<fibres::Fibre> threads;
  std::unique_ptr<char[]> stacks;
  std::vector<char> done;
  std::vector<Barrier> barriers;  // of the block, of an rTask, and of each warp
  std::vector<unsigned char> shared;
  std::vector<uint64_t> exchanged;
  int left;
};
static std::vector<Block> blocks;
static long progress;
static void (*body)();

static void give_turn() {
  Block& block = blocks[blockIdx.x];
  fibres::pause(block.threads[threadIdx.x]);
}

static void wait_for(int number, int threads) {
  Barrier& barrier = blocks[blockIdx.x].barriers[number];
  const int generation = barrier.generation;
  ++progress;
  if (++barrier.arrived == threads) {
    barrier.arrived = 0;
    ++barrier.generation;
  }
  while (barrier.generation == generation) give_turn();
}

static inline void __syncthreads() { wait_for(0, (int)blocks[blockIdx.x].threads.size()); }
static inline void __syncwarp() { wait_for(2 + threadIdx.x / kWarp, kWarp); }
static inline int rtask_barrier(int threads) { wait_for(1, threads); return 0; }
static inline int steps_made(const int* count) { return *count; }
static inline void look_again(int) { give_turn(); }
static inline void see_results() {}
static inline void count_step(int* count, int made) { *count = made; ++progress; }
static inline uint __activemask() { return ~0u; }
template <typename T>
static inline T __shfl_down_sync(uint, T value, int distance, int width) {
  std::vector<uint64_t>& slots = blocks[blockIdx.x].exchanged;
  const int lane = threadIdx.x % width;
  std::memcpy(&slots[threadIdx.x], &value, sizeof(T));
  __syncwarp();
  const int from = threadIdx.x + (lane + distance < width ? distance : 0);
  std::memcpy(&value, &slots[from], sizeof(T));
  __syncwarp();
  return value;
}

static void run_fibre() {
  for (;;) {
    body();
    Block& block = blocks[blockIdx.x];
    block.done[threadIdx.x] = 1;
    --block.left;
    ++progress;
    fibres::finish(block.threads[threadIdx.x]);
  }
}

// Returns how many blocks made no more progress; only so many blocks are there at once.
static int run_blocks(int count, int threads, int resident, unsigned seed, void (*entry)()) {
  std::mt19937 random(seed);
  body = entry;
  gridDim = {count, 1, 1};
  blocks.clear();
  blocks.resize(count);
  std::vector<int> open, pace(count);
  for (int b = 0; b < count; ++b) pace[b] = random() % 3 ? 1 : 16;
  int begun = 0, current = -1, idle = 0;
  while (begun < count || !open.empty()) {
    while ((int)open.size() < resident && begun < count) {
      Block& block = blocks[begun];
      block.threads.resize(threads);
      block.stacks.reset(new char[threads * kStack]);
      block.done.assign(threads, 0);
      block.barriers.resize(2 + (threads + kWarp - 1) / kWarp);
      block.shared.assign(kArena, 0xcd);
      block.exchanged.resize(threads);
      block.left = threads;
      for (int t = 0; t < threads; ++t) {
        fibres::prepare(block.threads[t], &block.stacks[t * kStack], kStack, run_fibre);
      }
      open.push_back(begun++);
    }
    const int place = random() % open.size(), number = open[place];
    if (random() % pace[number]) continue;
    if (number != current) {
      if (current >= 0) std::memcpy(blocks[current].shared.data(), arena, kArena);
      std::memcpy(arena, blocks[number].shared.data(), kArena);
      current = number;
    }
    Block& block = blocks[number];
    const long before = progress;
    const int first = random() % threads;
    for (int i = 0; i < threads; ++i) {
      const int t = (first + i) % threads;
      if (block.done[t]) continue;
      blockIdx = {number, 0, 0};
      threadIdx = {t, 0, 0};
      fibres::resume(block.threads[t]);
    }
    idle = progress == before ? idle + 1 : 0;
    if (idle > 400 * count) return (int)open.size();
    if (!block.left) open.erase(open.begin() + place);
  }
  return 0;
}
