// A stand-in for NVIDIA's driver: what its parts share.
//
// Device memory is host memory, and a "cubin" is a shared object whose kernels are C functions.
// Nothing runs when it is issued: work waits until somebody synchronises, and then runs in a
// random order that streams, events and graphs allow, only as far as that somebody needs it. A
// missing dependence or a missing join therefore shows in results. A kernel that is launched early
// (programmatic dependent launch) runs as soon as the one before it has begun, unless it waits.
//
// With STAND_IN_IDLE in the environment it takes what was compiled for a GPU, whose kernels then
// compute nothing, and all work is done when it is issued: for what only has to go its way.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <random>
#include <set>
#include <string>
#include <vector>

namespace stand_in {

// As in cuda.h.
enum Result {
  kSuccess = 0,
  kInvalidValue = 1,
  kOutOfMemory = 2,
  kInvalidDevice = 101,
  kInvalidImage = 200,
  kInvalidContext = 201,
  kInvalidHandle = 400,
  kNotFound = 500,
  kNotReady = 600,
  kTooLarge = 720,
  kIllegalAddress = 700,
  kCaptureUnsupported = 900,
  kCaptureInvalidated = 901,
  kCaptureUnjoined = 904,
  kCaptureIsolation = 905,
  kCaptureUnmatched = 906,
  kCapturedEvent = 907,
  // What CUDA lets pass, or leaves undefined, and a program of ours may not do.
  kComplaint = 999,
};

// When work begins: when what is before it has ended; or, a kernel that was launched early, when that
// has begun, unless it waits by itself.
enum class Begin { kOther, kKernel, kEarly, kEarlyAndWaits };

struct Work {
  std::vector<std::shared_ptr<Work>> after;
  std::function<Result()> run;
  int lane = 0;
  bool done = false;
  double seconds = 0;  // when it was done, by a clock that counts works
};
using Works = std::vector<std::shared_ptr<Work>>;

struct Handle {
  virtual ~Handle() = default;
  explicit Handle(const char* kind);
  const char* kind;
  bool alive = true;
};

struct GraphNode {
  std::vector<size_t> after;
  std::function<Result()> run;
  int lane;
  Begin begin;
};

struct Graph : Handle {
  Graph() : Handle("graph") {}
  std::vector<GraphNode> nodes;
};

struct GraphExec : Handle {
  GraphExec() : Handle("graph exec") {}
  std::vector<GraphNode> nodes;
  Works last;
};

struct Stream;

struct Capture {
  Stream* origin;
  Graph* graph;
  std::set<Stream*> streams;
  bool invalid = false;
  bool ended = false;
};

struct Stream : Handle {
  explicit Stream(const char* kind);
  int lane;
  Works tail;
  std::shared_ptr<Capture> capture;
  std::set<size_t> captured_tail;
};

struct Event : Handle {
  explicit Event(bool has_time) : Handle("event"), timing(has_time) {}
  bool timing;
  std::shared_ptr<Work> work;
  std::shared_ptr<Capture> capture;
  std::set<size_t> captured;
};

struct Module : Handle {
  Module() : Handle("module") {}
  void* library = nullptr;
};

struct Function {
  Module* module;
  int (*code)(void** arguments, const unsigned* grid);
  int parameters;
  // Whether it waits by itself until the work before it has ended.
  bool waits;
  unsigned most_shared;
};

struct State {
  std::map<std::string, long> calls;
  std::vector<Handle*> handles;
  std::map<uintptr_t, size_t> memory;  // live allocations of the device
  std::map<uintptr_t, size_t> pinned;
  std::vector<std::shared_ptr<Work>> pending;
  std::mt19937 random{1};
  std::string complaint;
  long clock = 0;
  int lanes = 0;
  Result sticky = kSuccess;
};

State& state();
// Of calls that name none; the streams of programs do not wait for it, nor it for them.
Stream* default_stream();
// Whether kernels compute nothing.
bool idle();
// Leaves work for later, or is done with it where nothing is computed.
void issue(const std::shared_ptr<Work>& work);
Result complain(const std::string& text);
// Whether some bytes lie in one live allocation.
bool within(const std::map<uintptr_t, size_t>& allocations, uintptr_t begin, size_t nbytes);
// Appends work to a stream or to the graph that is being captured from it.
Result append(Stream* stream, std::function<Result()> run, Begin begin = Begin::kOther);
// What work that begins early comes after: all that these do.
Works before_these(const Works& works);
// Runs what has to be done before all of these are, and by chance more.
Result run_until(const Works& wanted);
// An error if this thread may not call what could disturb a capture.
Result reject_in_capture();
// Those captures that this thread has begun and not ended.
std::set<std::shared_ptr<Capture>>& captures();

template <typename T>
T* alive(void* handle) {
  for (Handle* known : state().handles) {
    if (known == handle) {
      return known->alive ? dynamic_cast<T*>(known) : nullptr;
    }
  }
  return nullptr;
}

}  // namespace stand_in
