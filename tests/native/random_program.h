// Random programs whose every launch depends on the whole history of the buffers it touches.
#ifndef TVM_IOS_TESTS_RANDOM_PROGRAM_H_
#define TVM_IOS_TESTS_RANDOM_PROGRAM_H_

#include <tvm/ffi/tvm_ffi.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdint>
#include <random>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

namespace tvm_ios_tests {

namespace ffi = tvm::ffi;

constexpr std::int64_t kLength = 24;
constexpr std::int64_t kTiles = 6;
constexpr std::int64_t kModulus = 1000003;
using Random = std::mt19937_64;
using Content = std::array<std::int64_t, kLength>;

inline std::size_t Below(Random& random, std::size_t limit) { return random() % limit; }

struct Allocator {
  void AllocData(DLTensor* tensor) { tensor->data = new Content(); }
  void FreeData(DLTensor* tensor) { delete static_cast<Content*>(tensor->data); }
};

inline Content& Of(const ffi::Tensor& tensor) { return *static_cast<Content*>(tensor.data_ptr()); }

inline ffi::Tensor Zeros() {
  return ffi::Tensor::FromNDAlloc(Allocator(), ffi::Shape({kLength}), DLDataType{kDLInt, 64, 1},
                                  DLDevice{kDLCPU, 0});
}

// target[i] of some tiles becomes a mix of itself and of all of the sources, rolled.
inline void Mix(const std::vector<const Content*>& sources, Content& target, std::int64_t begin,
                std::int64_t end) {
  for (std::int64_t i = begin * kLength / kTiles; i < end * kLength / kTiles; ++i) {
    std::int64_t sum = target[i] * 3 + 1;
    for (std::size_t k = 0; k < sources.size(); ++k) {
      sum += static_cast<std::int64_t>(k + 2) * (*sources[k])[(i + 5) % kLength];
    }
    target[i] = sum % kModulus;
  }
}

// Lets other threads overtake now and then.
inline void Dawdle() {
  thread_local Random random(std::hash<std::thread::id>()(std::this_thread::get_id()));
  switch (random() % 24) {
    case 0:
      std::this_thread::sleep_for(std::chrono::microseconds(random() % 60));
      break;
    case 1:
      std::this_thread::yield();
      break;
    case 2:
      for (volatile int left = static_cast<int>(random() % 2000); left > 0;) left = left - 1;
      break;
    default:
      break;
  }
}

// A kernel of sources, a target and a tile range.
inline ffi::Function MixKernel() {
  return ffi::Function::FromPacked([](ffi::PackedArgs args, ffi::Any*) {
    Dawdle();
    const std::int32_t buffers = args.size() - 2;
    std::vector<const Content*> sources;
    for (std::int32_t i = 0; i + 1 < buffers; ++i) {
      sources.push_back(&Of(args[i].cast<ffi::Tensor>()));
    }
    Mix(sources, Of(args[buffers - 1].cast<ffi::Tensor>()), args[buffers].cast<std::int64_t>(),
        args[buffers + 1].cast<std::int64_t>());
  });
}

inline ffi::Function FailingKernel() {
  return ffi::Function::FromPacked([](ffi::PackedArgs, ffi::Any*) {
    Dawdle();
    throw std::runtime_error("no luck");
  });
}

struct Piece {
  std::size_t lane;
  std::int64_t begin, end;
};

struct Operation {
  std::vector<std::size_t> sources;
  std::size_t target;
  std::vector<Piece> pieces;
};

struct RandomProgram {
  std::size_t buffers;
  std::vector<Operation> operations;
  // What Plan takes: kernel 0 mixes, kernel 1 fails.
  std::vector<std::vector<std::int64_t>> lanes;

  // One operation after another, on one thread.
  void Reference(std::vector<Content>& memory) const {
    for (const Operation& operation : operations) {
      std::vector<const Content*> sources;
      for (std::size_t source : operation.sources) sources.push_back(&memory[source]);
      Mix(sources, memory[operation.target], 0, kTiles);
    }
  }
};

// Every wait that a data dependence needs, implied ones included, and some that none needs. With
// `failing` one launch in the middle of the program fails.
inline RandomProgram MakeProgram(Random& random, bool failing = false) {
  RandomProgram made;
  const std::size_t lanes = 1 + Below(random, 5);
  const std::size_t count = 5 + Below(random, 40);
  const std::size_t broken = failing ? count / 2 : count;
  made.buffers = 3 + Below(random, 6);
  made.lanes.resize(lanes);
  std::vector<std::size_t> launches(lanes, 0);
  // For each buffer and lane how many launches have to end before the next write, or read.
  std::vector<std::vector<std::size_t>> used(made.buffers, launches), written = used;
  for (std::size_t number = 0; number < count; ++number) {
    Operation operation;
    operation.target = Below(random, made.buffers);
    for (std::size_t left = Below(random, 3); left > 0; --left) {
      const std::size_t source = Below(random, made.buffers);
      if (source != operation.target) operation.sources.push_back(source);
    }
    std::vector<std::size_t> needed = used[operation.target];
    for (std::size_t source : operation.sources) {
      for (std::size_t lane = 0; lane < lanes; ++lane) {
        needed[lane] = std::max(needed[lane], written[source][lane]);
      }
    }
    const std::size_t other = Below(random, lanes);
    needed[other] = std::max(needed[other], Below(random, launches[other] + 1));
    std::int64_t begin = 0;
    while (begin < kTiles) {
      const std::int64_t end =
          std::min<std::int64_t>(kTiles, begin + 2 + static_cast<std::int64_t>(Below(random, 5)));
      operation.pieces.push_back({Below(random, lanes), begin, end});
      begin = end;
    }
    for (const Piece& piece : operation.pieces) {
      std::vector<std::int64_t>& code = made.lanes[piece.lane];
      for (std::size_t lane = 0; lane < lanes; ++lane) {
        if (needed[lane] == 0) continue;
        code.insert(code.end(), {0, static_cast<std::int64_t>(lane),
                                 static_cast<std::int64_t>(needed[lane])});
      }
      code.insert(code.end(),
                  {1, number == broken, piece.begin, piece.end, static_cast<std::int64_t>(number),
                   static_cast<std::int64_t>(operation.sources.size() + 1)});
      for (std::size_t source : operation.sources) {
        code.push_back(static_cast<std::int64_t>(source));
      }
      code.push_back(static_cast<std::int64_t>(operation.target));
    }
    // Counted after all pieces: pieces of one operation are independent of each other.
    for (const Piece& piece : operation.pieces) {
      const std::size_t done = ++launches[piece.lane];
      used[operation.target][piece.lane] = written[operation.target][piece.lane] = done;
      for (std::size_t source : operation.sources) used[source][piece.lane] = done;
    }
    made.operations.push_back(std::move(operation));
  }
  return made;
}

}  // namespace tvm_ios_tests

#endif  // TVM_IOS_TESTS_RANDOM_PROGRAM_H_
