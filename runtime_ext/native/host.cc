// Buffers in this machine's memory, and the executor of threads.
#include <cstring>

#include "device.h"

namespace tvm_ios {

namespace {

std::vector<ffi::Tensor> MakeBuffers(const Executable& executable) {
  const std::vector<Buffer>& buffers = executable.program.buffers;
  const Block arena = Allocate(executable.memory.bytes);
  std::vector<ffi::Tensor> wholes;
  for (std::size_t i = 0; i < buffers.size(); ++i) {
    const BufferType& type = buffers[i].type;
    if (buffers[i].whole != i) {
      wholes.emplace_back();
    } else if (buffers[i].role == "constant") {
      wholes.push_back(TensorIn(executable.constants.at(i).block, 0, type));
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

std::unique_ptr<Plan> MakePlan(const Executable& executable,
                               const std::vector<ffi::Tensor>& buffers) {
  const Program& program = executable.program;
  ffi::Array<ffi::Array<std::int64_t>> lanes;
  for (const auto& lane : program.lanes) {
    lanes.push_back(ffi::Array<std::int64_t>(lane.begin(), lane.end()));
  }
  const std::vector<ffi::Function> kernels = ReadLibraries<ffi::Function>(
      executable.libraries, program.kernels,
      [](const Library& library) { return LoadKernels(library.file, library.symbols); });
  return std::make_unique<Plan>(ffi::Array<ffi::Function>(kernels.begin(), kernels.end()),
                                program.kernels, program.units,
                                ffi::Array<ffi::Tensor>(buffers.begin(), buffers.end()), lanes);
}

class Host final : public Device {
 public:
  explicit Host(const Executable& executable)
      : types_(executable.program.buffers),
        buffers_(MakeBuffers(executable)),
        executor_(Executor::Make(MakePlan(executable, buffers_), {})) {}

  void Write(std::size_t buffer, const void* bytes) final {
    std::memcpy(buffers_[buffer].data_ptr(), bytes, types_[buffer].type.Bytes());
  }
  void Read(std::size_t buffer, void* bytes) final {
    std::memcpy(bytes, buffers_[buffer].data_ptr(), types_[buffer].type.Bytes());
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
  void Close() final { executor_->Close(); }

 private:
  std::vector<Buffer> types_;
  std::vector<ffi::Tensor> buffers_;
  Executor::Pointer executor_;
};

}  // namespace

std::unique_ptr<Device> MakeHost(const Executable& executable) {
  return std::make_unique<Host>(executable);
}

}  // namespace tvm_ios
