// Buffers in this machine's memory, and the executor of threads.
#include <algorithm>
#include <cstring>

#include "device.h"

namespace tvm_ios {

namespace {

// A buffer whose place or shape depends on the shape of a run, with its memory if that is its own.
// Memory grows with the largest shape so far.
struct Moving {
  std::size_t buffer;
  ffi::Tensor tensor;
  // Extents may be references.
  BufferType type;
  // Where it is in the memory plan; none for an input or output.
  std::optional<std::size_t> place;
  Block block;
  std::size_t capacity = 0;

  DLTensor* fields() const { return ffi::AnyView(tensor).cast<DLTensor*>(); }

  void Grow(std::size_t bytes) {
    if (block != nullptr && bytes <= capacity) return;
    // Both at once may be too much.
    block.reset();
    capacity = 0;
    block = Allocate(bytes);
    capacity = bytes;
    fields()->data = block.get();
  }

  // As Grow, and keeps the first bytes.
  void Reserve(std::size_t bytes, std::size_t kept) {
    if (block != nullptr && bytes <= capacity) return;
    const Block larger = Allocate(bytes);
    if (block != nullptr) std::memcpy(larger.get(), block.get(), std::min(kept, capacity));
    block = larger;
    capacity = bytes;
    fields()->data = block.get();
  }

  void Reshape(const std::vector<std::int64_t>& values) {
    DLTensor* const tensor_fields = fields();
    std::int64_t stride = 1;
    for (std::size_t axis = type.shape.size(); axis-- > 0;) {
      tensor_fields->shape[axis] = At(type.shape[axis], values);
      tensor_fields->strides[axis] = stride;
      stride *= tensor_fields->shape[axis];
    }
  }
};

class Host final : public Device {
 public:
  Host(const Executable& executable, const std::vector<ffi::Function>& kernels,
       const ExecutorOptions& options)
      : open_(executable.program.expressions.open()), buffers_(MakeBuffers(executable)) {
    for (std::size_t choice = 0; choice < executable.program.choices(); ++choice) {
      executors_.push_back(
          Executor::Make(MakePlan(executable.program, choice, kernels), options));
    }
    executor_ = executors_[0].get();
  }

  void Resize(std::size_t buffer, const std::vector<std::int64_t>& shape) final {
    for (Moving& moving : moving_) {
      if (moving.buffer != whole_[buffer]) continue;
      bytes_[moving.buffer] = BufferType{shape, moving.type.dtype}.Bytes();
      moving.Grow(bytes_[moving.buffer]);
    }
  }

  void Bind(const BoundShape& shape) final {
    if (shape.symbols == bound_) return;
    GrowArena(shape.bytes);
    bound_.clear();
    for (Moving& moving : moving_) {
      moving.Reshape(shape.values);
      if (moving.place) {
        moving.fields()->data = arena_.get() + shape.offsets[*moving.place];
      } else {
        // An input that was written has its place.
        bytes_[moving.buffer] = TypeAt(moving.type, shape.values).Bytes();
        moving.Grow(bytes_[moving.buffer]);
      }
    }
    executor_ = executors_[shape.choice].get();
    executor_->Bind(shape.values);
    bound_ = shape.symbols;
  }

  void Reserve(const BoundShape& largest) final {
    GrowArena(largest.bytes);
    for (Moving& moving : moving_) {
      if (moving.place) continue;
      moving.Reserve(TypeAt(moving.type, largest.values).Bytes(), bytes_[moving.buffer]);
    }
  }

  void Write(std::size_t buffer, const void* bytes) final {
    std::memcpy(buffers_[buffer].data_ptr(), bytes, bytes_[whole_[buffer]]);
  }
  void Read(std::size_t buffer, void* bytes) final {
    std::memcpy(bytes, buffers_[buffer].data_ptr(), bytes_[whole_[buffer]]);
  }
  void Carry(std::size_t source, std::size_t target) final {
    // Kernels of a part are given the tensor of the whole.
    Exchange(buffers_[source], buffers_[target]);
  }
  void Run() final { executor_->Run(); }
  std::vector<double> Benchmark(std::int64_t number, std::int64_t repeat) final {
    return executor_->Benchmark(number, repeat);
  }
  std::vector<std::vector<Span>> Profile() final { return executor_->Profile(); }
  void Close() final {
    for (const Executor::Pointer& executor : executors_) executor->Close();
  }

 private:
  void GrowArena(std::size_t bytes) {
    if (bytes <= arena_bytes_ && arena_ != nullptr) return;
    // The tensors in it have to be placed again.
    bound_.clear();
    arena_.reset();
    arena_bytes_ = 0;
    arena_ = Allocate(bytes);
    arena_bytes_ = bytes;
  }

  std::vector<ffi::Tensor> MakeBuffers(const Executable& executable) {
    const std::vector<Buffer>& buffers = executable.program.buffers;
    const Block arena = open_ ? nullptr : Allocate(executable.memory.bytes);
    std::vector<ffi::Tensor> wholes;
    for (std::size_t i = 0; i < buffers.size(); ++i) {
      const BufferType& type = buffers[i].type;
      const bool shaped = std::any_of(type.shape.begin(), type.shape.end(), IsOpen);
      whole_.push_back(buffers[i].whole);
      bytes_.push_back(shaped ? 0 : type.Bytes());
      if (buffers[i].whole != i) {
        wholes.emplace_back();
      } else if (buffers[i].role == "constant") {
        wholes.push_back(TensorIn(executable.constants.at(i).block, 0, type));
      } else if (open_ && (shaped || buffers[i].planned(i))) {
        wholes.push_back(AddMoving(executable, i));
      } else if (buffers[i].planned(i)) {
        wholes.push_back(TensorIn(arena, executable.memory.offsets[i], type));
      } else {
        wholes.push_back(TensorIn(Allocate(type.Bytes()), 0, type));
      }
    }
    // Kernels of a part are given the whole.
    std::vector<ffi::Tensor> tensors;
    for (const Buffer& buffer : buffers) tensors.push_back(wholes[buffer.whole]);
    return tensors;
  }

  ffi::Tensor AddMoving(const Executable& executable, std::size_t buffer) {
    BufferType type = executable.program.buffers[buffer].type;
    const std::vector<std::size_t>& order = executable.memory.order;
    const auto place = std::find(order.begin(), order.end(), buffer);
    BufferType unknown = type;
    std::fill(unknown.shape.begin(), unknown.shape.end(), 0);
    const ffi::Tensor tensor = TensorIn(nullptr, 0, unknown);
    moving_.push_back({buffer, tensor, std::move(type),
                       place == order.end() ? std::nullopt
                                            : std::optional<std::size_t>(place - order.begin()),
                       nullptr});
    return tensor;
  }

  std::unique_ptr<Plan> MakePlan(const Program& program, std::size_t choice,
                                 const std::vector<ffi::Function>& kernels) const {
    ffi::Array<ffi::Array<std::int64_t>> lanes;
    for (const auto& lane : program.lanes_of(choice)) {
      lanes.push_back(ffi::Array<std::int64_t>(lane.begin(), lane.end()));
    }
    return std::make_unique<Plan>(ffi::Array<ffi::Function>(kernels.begin(), kernels.end()),
                                  program.kernels, program.units,
                                  ffi::Array<ffi::Tensor>(buffers_.begin(), buffers_.end()), lanes,
                                  program.expressions.size());
  }

  bool open_;
  // Of each buffer the one whose memory it lies in, and its bytes; of an open program those of the
  // shape that was bound, or of the input that was written.
  std::vector<std::size_t> whole_;
  std::vector<std::size_t> bytes_;
  std::vector<Moving> moving_;
  std::vector<ffi::Tensor> buffers_;
  Block arena_;
  std::size_t arena_bytes_ = 0;
  // The symbols of the shape that runs are of.
  std::vector<std::int64_t> bound_;
  // Of each choice of lanes, and that of the shape that was bound.
  std::vector<Executor::Pointer> executors_;
  Executor* executor_;
};

}  // namespace

std::unique_ptr<Device> MakeHost(const Executable& executable,
                                 const std::vector<ffi::Function>& kernels,
                                 const ExecutorOptions& options) {
  return std::make_unique<Host>(executable, kernels, options);
}

std::unique_ptr<Device> MakeHost(const Executable& executable) {
  const std::vector<ffi::Function> kernels = ReadLibraries<ffi::Function>(
      executable.libraries, executable.program.kernels,
      [](const Library& library) { return LoadKernels(library.file, library.symbols); });
  return MakeHost(executable, kernels, {});
}

}  // namespace tvm_ios
