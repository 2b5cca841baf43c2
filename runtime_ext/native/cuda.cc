// Buffers on a GPU, and an executor of streams: a run is one launch of a captured graph.
//
// As runtime_ext/cuda/executor.py does it: fork and join are events, and the first run is eager and
// waits after every launch. Events between streams are those of the program's waits, of which
// lowering writes no more than are needed; runtime_ext/cuda/event_graph.py has the same rule.
#include <unistd.h>

#include <map>
#include <mutex>

#include "cuda_driver.h"
#include "cuda_kernels.h"
#include "device.h"
#include "lane_order.h"

namespace tvm_ios {

namespace {

using cuda::Address;
using cuda::Failure;
using cuda::Gpu;
using cuda::Handle;
using cuda::LoadDriver;
using Resource = std::shared_ptr<void>;

// As in cuda.h.
constexpr unsigned kNonBlocking = 1;
constexpr unsigned kNoTiming = 2;
constexpr unsigned kInGraph = 1;
constexpr int kThreadLocal = 1;
constexpr int kMostDynamicShared = 8;
constexpr int kMultiprocessors = 16;
constexpr int kProgrammaticSerialization = 6;
constexpr unsigned kSharedWithoutAsking = 48 << 10;
constexpr std::size_t kBufferAlignment = 256;

Resource NewStream() {
  Handle stream;
  TVM_IOS_CUDA(StreamCreate, &stream, kNonBlocking);
  return cuda::Owned(stream, LoadDriver().StreamDestroy);
}

Resource NewEvent(unsigned flags) {
  Handle event;
  TVM_IOS_CUDA(EventCreate, &event, flags);
  return cuda::Owned(event, LoadDriver().EventDestroy);
}

double Milliseconds(const Resource& begin, const Resource& end) {
  float milliseconds;
  TVM_IOS_CUDA(EventElapsedTime, &milliseconds, begin.get(), end.get());
  return milliseconds;
}

// Returns when the bytes are there. The copy itself returns when the driver has what is in pageable
// memory; its transfer goes on on the default stream, for which those of programs do not wait.
void Upload(Address target, const void* bytes, std::size_t count) {
  TVM_IOS_CUDA(MemcpyHtoD, target, bytes, count);
  TVM_IOS_CUDA(StreamSynchronize, nullptr);
}

// A constant on the device, uploaded once and the same for all sessions.
std::shared_ptr<const Address> SharedConstant(const Gpu& gpu, const Constant& constant,
                                              std::size_t bytes) {
  static std::mutex mutex;
  static auto* const shared = new std::map<std::string, std::weak_ptr<const Address>>();
  std::lock_guard<std::mutex> lock(mutex);
  if (auto address = (*shared)[constant.key].lock()) return address;
  auto address = cuda::AllocateOn(gpu, bytes);
  Upload(*address, constant.block.get(), bytes);
  (*shared)[constant.key] = address;
  return address;
}

// The arena, the buffers outside it, and constants.
class DeviceBuffers {
 public:
  DeviceBuffers(const Gpu& gpu, const Executable& executable) {
    const std::vector<Buffer>& buffers = executable.program.buffers;
    std::size_t end = executable.memory.bytes;
    std::vector<std::size_t> places(buffers.size());
    for (std::size_t i = 0; i < buffers.size(); ++i) {
      if (buffers[i].whole != i || buffers[i].role == "constant") continue;
      if (buffers[i].planned(i)) {
        places[i] = executable.memory.offsets[i];
      } else {
        places[i] = (end + kBufferAlignment - 1) / kBufferAlignment * kBufferAlignment;
        end = places[i] + buffers[i].type.Bytes();
      }
    }
    memory_ = cuda::AllocateOn(gpu, end);
    std::vector<Address> wholes(buffers.size());
    for (std::size_t i = 0; i < buffers.size(); ++i) {
      wholes[i] = *memory_ + places[i];
      if (buffers[i].role != "constant") continue;
      constants_.push_back(
          SharedConstant(gpu, executable.constants.at(i), buffers[i].type.Bytes()));
      wholes[i] = *constants_.back();
    }
    for (const Buffer& buffer : buffers) {
      addresses.push_back(wholes[buffer.whole]);
      sizes.push_back(buffer.type.Bytes());
    }
  }

  // The address of each buffer; kernels of a part are given the whole.
  std::vector<Address> addresses;
  std::vector<std::size_t> sizes;

 private:
  std::shared_ptr<const Address> memory_;
  std::vector<std::shared_ptr<const Address>> constants_;
};

std::vector<CudaKernel> ReadKernels(const Executable& executable) {
  return ReadLibraries<CudaKernel>(
      executable.libraries, executable.program.kernels, [&](const Library& library) {
        return ReadCudaKernels(MappedFile(library.file).bytes(), executable.arch, library.symbols);
      });
}

// A launch, with its arguments as the driver takes them.
struct Call {
  std::size_t lane;
  std::size_t place;  // in its lane
  std::string name;   // for errors
  const CudaKernel* kernel;
  Handle function;
  std::vector<Address> arguments;
  std::vector<void*> parameters;
  std::vector<std::pair<Address, std::size_t>> cleared;
  std::vector<std::size_t> awaits;  // other calls
  bool forks;
  bool early;  // may be launched before the call before it on its lane has ended
  Resource done;  // set where somebody waits for it
};

class Cuda final : public Device {
 public:
  explicit Cuda(const Executable& executable)
      : gpu_(Require(executable)),
        kernels_(ReadKernels(executable)),
        buffers_(gpu_, executable),
        begin_(NewEvent(kNoTiming)) {
    std::map<const std::string*, Handle> loaded;
    for (const CudaKernel& kernel : kernels_) {
      Handle& code = loaded[kernel.cubin.get()];
      if (code == nullptr) {
        TVM_IOS_CUDA(ModuleLoadData, &code, kernel.cubin->data());
        modules_.push_back(cuda::Owned(code, LoadDriver().ModuleUnload));
      }
      Handle& function = functions_.emplace_back();
      TVM_IOS_CUDA(ModuleGetFunction, &function, code, kernel.entry.c_str());
      if (kernel.shared_bytes > kSharedWithoutAsking) {
        TVM_IOS_CUDA(FuncSetAttribute, function, kMostDynamicShared,
                     static_cast<int>(kernel.shared_bytes));
      }
    }
    MakeCalls(executable.program);
    for (std::size_t lane = 0; lane < launches_.size(); ++lane) {
      streams_.push_back(launches_[lane] || lane == origin_ ? NewStream() : nullptr);
    }
  }

  void Write(std::size_t buffer, const void* bytes) final {
    gpu_.Use();
    Upload(buffers_.addresses[buffer], bytes, buffers_.sizes[buffer]);
  }
  void Read(std::size_t buffer, void* bytes) final {
    gpu_.Use();
    TVM_IOS_CUDA(MemcpyDtoH, bytes, buffers_.addresses[buffer], buffers_.sizes[buffer]);
  }

  void Carry(std::size_t source, std::size_t target) final {
    // Captured graphs have their addresses. Whatever runs next waits for the origin.
    gpu_.Use();
    TVM_IOS_CUDA(MemcpyDtoDAsync, buffers_.addresses[target], buffers_.addresses[source],
                 buffers_.sizes[source], Origin());
  }

  void Run() final {
    const auto entered = Enter();
    if (WarmUp()) return;
    Replay(replay_);
    Finish();
  }

  std::vector<double> Benchmark(std::int64_t number, std::int64_t repeat) final {
    const auto entered = Enter();
    WarmUp();
    const Resource begin = NewEvent(0), end = NewEvent(0);
    std::vector<double> samples;
    for (std::int64_t sample = 0; sample < repeat; ++sample) {
      TVM_IOS_CUDA(EventRecord, begin.get(), Origin());
      for (std::int64_t run = 0; run < number; ++run) Replay(replay_);
      TVM_IOS_CUDA(EventRecord, end.get(), Origin());
      Finish();
      samples.push_back(Milliseconds(begin, end) * 1e-3 / static_cast<double>(number));
    }
    return samples;
  }

  std::vector<std::vector<Span>> Profile() final {
    if (LoadDriver().EventRecordWithFlags == nullptr) {
      throw ffi::Error("CudaError",
                       "NVIDIA's driver is too old for profiles: it lacks cuEventRecordWithFlags",
                       "");
    }
    const auto entered = Enter();
    WarmUp();
    std::vector<Resource> before, after;
    for (std::size_t i = 0; i < calls_.size(); ++i) {
      before.push_back(NewEvent(0));
      after.push_back(NewEvent(0));
    }
    const Resource origin = NewEvent(0);
    // Events in the graph: the host's time for a launch has no part in it.
    const auto record = [](const Resource& moment, Handle stream) {
      TVM_IOS_CUDA(EventRecordWithFlags, moment.get(), stream, kInGraph);
    };
    const Resource replay = Capture([&] {
      record(origin, Origin());
      Issue([&](std::size_t number, Handle stream) {
        record(before[number], stream);
        // An event is no kernel that another may follow early.
        Launch(calls_[number], stream, false);
        record(after[number], stream);
      });
    });
    Replay(replay);
    Finish();
    std::vector<std::vector<Span>> spans;
    for (std::size_t count : launches_) spans.emplace_back(count);
    for (std::size_t i = 0; i < calls_.size(); ++i) {
      const auto nanoseconds = [&](const Resource& moment) {
        return static_cast<std::int64_t>(Milliseconds(origin, moment) * 1e6);
      };
      spans[calls_[i].lane][calls_[i].place] = {nanoseconds(before[i]), nanoseconds(after[i])};
    }
    return spans;
  }

  void Close() final {
    const std::lock_guard<std::mutex> lock(mutex_);
    closed_ = true;
    replay_.reset();
  }

 private:
  static const Gpu& Require(const Executable& executable) {
    const Gpu& gpu = cuda::OpenGpu();
    if (!cuda::RunsOn(executable.arch, gpu.major, gpu.minor)) {
      const std::string own_arch = "sm_" + std::to_string(gpu.major) + std::to_string(gpu.minor);
      throw ffi::Error("ExecutableError",
                       "the kernels were compiled for " + executable.arch + " and " + gpu.name +
                           " is " + own_arch + "; compile them with --arch " + own_arch,
                       "");
    }
    gpu.Use();
    return gpu;
  }

  // The launches in an order in which they may be issued, and what each waits for.
  void MakeCalls(const Program& program) {
    const std::vector<std::vector<Item>> lanes = DecodeLanes(program);
    std::vector<std::vector<std::size_t>> issued(lanes.size());
    std::vector<std::vector<std::size_t>> awaits(lanes.size());
    std::vector<bool> awaited;
    const auto add = [&](std::size_t lane, const Item& item) {
      if (item.IsWait()) {
        if (item.lane != lane && item.launches != 0) {
          awaits[lane].push_back(issued[item.lane][item.launches - 1]);
        }
        return;
      }
      if (calls_.empty()) origin_ = lane;
      const bool forks = lane != origin_ && issued[lane].empty() && awaits[lane].empty();
      for (std::size_t other : awaits[lane]) awaited[other] = true;
      calls_.push_back(MakeCall(program, lane, issued[lane].size(), item));
      calls_.back().awaits = std::move(awaits[lane]);
      calls_.back().forks = forks;
      calls_.back().early = BeginsEarly(calls_.back(), issued[lane]);
      awaits[lane].clear();
      issued[lane].push_back(calls_.size() - 1);
      awaited.push_back(false);
    };
    const auto items_of = [&](std::size_t lane) -> const auto& { return lanes[lane]; };
    if (const auto stuck = VisitInOrder(lanes.size(), items_of, add)) {
      throw Misfit("lane " + std::to_string(*stuck) +
                   " would wait for ever: the waits form a cycle");
    }
    for (std::size_t lane = 0; lane < lanes.size(); ++lane) {
      launches_.push_back(issued[lane].size());
      // Whatever ends a lane is waited for by a launch of another one, or by the origin.
      if (lane != origin_ && !issued[lane].empty() && !awaited[issued[lane].back()]) {
        joins_.push_back(issued[lane].back());
        awaited[issued[lane].back()] = true;
      }
    }
    for (std::size_t i = 0; i < calls_.size(); ++i) {
      if (awaited[i]) calls_[i].done = NewEvent(kNoTiming);
    }
  }

  // Whether a call waits for nothing but the one before it on its lane, as it does by itself. Kernels
  // that are launched cooperatively come when all else has ended. As event_graph.py has it.
  bool BeginsEarly(const Call& call, const std::vector<std::size_t>& before) const {
    return LoadDriver().LaunchKernelEx != nullptr && call.kernel->early && call.awaits.empty() &&
           !before.empty() && !calls_[before.back()].kernel->Cooperative();
  }

  // Refuses a kernel whose blocks wait for each other if not all of them can run at once: a part of
  // a GPU, or a smaller one of the same architecture, would wait for ever.
  void RequireResident(const CudaKernel& kernel, Handle function) const {
    const auto product = [](const std::array<unsigned, 3>& extents) {
      return static_cast<std::int64_t>(extents[0]) * extents[1] * extents[2];
    };
    int processors = 0, blocks_each = 0, device = 0;
    TVM_IOS_CUDA(DeviceGet, &device, 0);
    TVM_IOS_CUDA(DeviceGetAttribute, &processors, kMultiprocessors, device);
    TVM_IOS_CUDA(OccupancyMaxActiveBlocksPerMultiprocessor, &blocks_each, function,
                 static_cast<int>(product(kernel.block)), kernel.shared_bytes);
    const std::int64_t resident = static_cast<std::int64_t>(processors) * blocks_each;
    if (product(kernel.grid) > resident) {
      throw Misfit("kernel '" + kernel.entry + "' needs " + std::to_string(product(kernel.grid)) +
                   " blocks at once and " + gpu_.name + " holds " + std::to_string(resident) +
                   ": compile the model for this device");
    }
  }

  Call MakeCall(const Program& program, std::size_t lane, std::size_t place, const Item& item) {
    const std::string& symbol = program.kernels[item.kernel];
    if (!item.scalars.empty()) throw Misfit("kernel '" + symbol + "' for a GPU takes scalars");
    if (item.begin != 0 || item.end != 1) {
      throw Misfit("lane " + std::to_string(lane) + " launches a range of tiles of kernel '" +
                   symbol + "', and CUDA kernels run whole");
    }
    Call call{lane, place, "unit '" + program.units[item.unit] + "' failed in kernel '" + symbol +
              "' on lane " + std::to_string(lane),
              &kernels_[item.kernel], functions_[item.kernel], {}, {}, {}, {}, false, false, {}};
    for (std::size_t buffer : item.buffers) call.arguments.push_back(buffers_.addresses[buffer]);
    // Moving a vector leaves its elements where they are.
    for (Address& argument : call.arguments) call.parameters.push_back(&argument);
    if (call.kernel->Cooperative()) RequireResident(*call.kernel, call.function);
    for (std::int64_t argument : call.kernel->cleared) {
      if (static_cast<std::size_t>(argument) >= item.buffers.size()) {
        throw Misfit("kernel '" + symbol + "' clears an argument that it does not take");
      }
      const std::size_t buffer = item.buffers[argument];
      call.cleared.emplace_back(buffers_.addresses[buffer], buffers_.sizes[buffer]);
    }
    return call;
  }

  std::unique_lock<std::mutex> Enter() {
    std::unique_lock<std::mutex> lock(mutex_, std::try_to_lock);
    const auto busy = [](const char* sentence) { return ffi::Error("BusyError", sentence, ""); };
    if (!lock) throw busy("this session is running in another thread; make one session a thread");
    if (closed_) throw busy("this session is closed; make a new one");
    gpu_.Use();
    return lock;
  }

  // Runs for the first time, and captures later runs; false if that has been done already.
  bool WarmUp() {
    if (replay_) return false;
    Issue([this](std::size_t number, Handle stream) {
      Launch(calls_[number], stream, calls_[number].early);
      Named(calls_[number], [&] { TVM_IOS_CUDA(StreamSynchronize, stream); });
    });
    Finish();
    replay_ = Capture([this] {
      Issue([this](std::size_t number, Handle stream) {
        Launch(calls_[number], stream, calls_[number].early);
      });
    });
    return true;
  }

  // A graph of the work that `issue` puts on the streams.
  template <typename Function>
  Resource Capture(Function issue) {
    Handle graph = nullptr, executable = nullptr;
    TVM_IOS_CUDA(StreamBeginCapture, Origin(), kThreadLocal);
    try {
      issue();
    } catch (...) {
      // The streams can be used again only when the capture has ended.
      LoadDriver().StreamEndCapture(Origin(), &graph);
      throw;
    }
    TVM_IOS_CUDA(StreamEndCapture, Origin(), &graph);
    const Resource description = cuda::Owned(graph, LoadDriver().GraphDestroy);
    TVM_IOS_CUDA(GraphInstantiate, &executable, graph, 0);
    const Resource replay = cuda::Owned(executable, LoadDriver().GraphExecDestroy);
    if (LoadDriver().GraphUpload != nullptr) TVM_IOS_CUDA(GraphUpload, executable, Origin());
    return replay;
  }

  void Replay(const Resource& graph) { TVM_IOS_CUDA(GraphLaunch, graph.get(), Origin()); }

  void Finish() {
    try {
      TVM_IOS_CUDA(StreamSynchronize, Origin());
    } catch (const Failure& failure) {
      throw ffi::Error("KernelError",
                       std::string("a kernel of the program failed: ") + failure.message() +
                           "; a first run in a new process says which",
                       "");
    }
  }

  // Puts all launches of a run on their streams, each by calling `launch` with its number.
  template <typename Function>
  void Issue(Function launch) {
    TVM_IOS_CUDA(EventRecord, begin_.get(), Origin());
    for (std::size_t number = 0; number < calls_.size(); ++number) {
      const Call& call = calls_[number];
      const Handle stream = streams_[call.lane].get();
      if (call.forks) TVM_IOS_CUDA(StreamWaitEvent, stream, begin_.get(), 0);
      for (std::size_t other : call.awaits) {
        TVM_IOS_CUDA(StreamWaitEvent, stream, calls_[other].done.get(), 0);
      }
      launch(number, stream);
      if (call.done) TVM_IOS_CUDA(EventRecord, call.done.get(), stream);
    }
    for (std::size_t join : joins_) {
      TVM_IOS_CUDA(StreamWaitEvent, Origin(), calls_[join].done.get(), 0);
    }
  }

  void Launch(Call& call, Handle stream, bool early) {
    Named(call, [&] {
      for (const auto& [address, bytes] : call.cleared) {
        TVM_IOS_CUDA(MemsetD8Async, address, 0, bytes, stream);
      }
      const CudaKernel& kernel = *call.kernel;
      const auto& [gx, gy, gz] = kernel.grid;
      const auto& [bx, by, bz] = kernel.block;
      if (kernel.Cooperative()) {
        // Only so does the driver make room for all blocks, however a multiprocessor divides its
        // memory for the kernel before, and keeps two such kernels apart.
        TVM_IOS_CUDA(LaunchCooperativeKernel, call.function, gx, gy, gz, bx, by, bz,
                     kernel.shared_bytes, stream, call.parameters.data());
      } else if (early) {
        cuda::LaunchAttribute attribute{kProgrammaticSerialization, 0, {1}};
        const cuda::LaunchConfig config{
            {gx, gy, gz}, {bx, by, bz}, kernel.shared_bytes, stream, &attribute, 1};
        TVM_IOS_CUDA(LaunchKernelEx, &config, call.function, call.parameters.data(), nullptr);
      } else {
        TVM_IOS_CUDA(LaunchKernel, call.function, gx, gy, gz, bx, by, bz, kernel.shared_bytes,
                     stream, call.parameters.data(), nullptr);
      }
    });
  }

  template <typename Function>
  static void Named(const Call& call, Function function) {
    try {
      function();
    } catch (const Failure& failure) {
      throw ffi::Error("KernelError", call.name + ": " + failure.message(), "");
    }
  }

  Handle Origin() const { return streams_[origin_].get(); }

  const Gpu& gpu_;
  std::vector<CudaKernel> kernels_;
  DeviceBuffers buffers_;
  Resource begin_;
  std::vector<Resource> modules_;
  std::vector<Handle> functions_;
  std::vector<Call> calls_;
  std::vector<std::size_t> launches_;
  std::vector<std::size_t> joins_;
  std::size_t origin_ = 0;
  std::vector<Resource> streams_;
  Resource replay_;
  bool closed_ = false;
  std::mutex mutex_;
};

}  // namespace

std::unique_ptr<Device> MakeCuda(const Executable& executable) {
  if (executable.program.expressions.open()) {
    throw Misfit("a program of open dimensions runs on a CPU alone");
  }
  try {
    return std::make_unique<Cuda>(executable);
  } catch (const Failure& failure) {
    throw ffi::Error("ExecutableError", failure.message(), "");
  }
}

}  // namespace tvm_ios
