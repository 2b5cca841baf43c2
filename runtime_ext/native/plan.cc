#include "plan.h"

#include <utility>

#include "lane_order.h"
#include "mark.h"

namespace tvm_ios {

namespace {

// Reads a flat list and refuses to run over its end or to take an index out of range.
class Reader {
 public:
  explicit Reader(const std::vector<std::int64_t>& code) : code_(code) {}

  bool done() const { return at_ == code_.size(); }

  std::int64_t Next() {
    if (done()) TVM_FFI_THROW(ValueError) << "the lane's code ends inside an instruction";
    return code_[at_++];
  }

  std::size_t Index(std::size_t limit, const char* what) {
    const std::int64_t value = Next();
    if (value < 0 || static_cast<std::size_t>(value) >= limit) {
      TVM_FFI_THROW(ValueError) << "the program names " << what << " " << value << " of " << limit;
    }
    return static_cast<std::size_t>(value);
  }

 private:
  const std::vector<std::int64_t>& code_;
  std::size_t at_ = 0;
};

}  // namespace

Plan::Plan(ffi::Array<ffi::Function> functions, std::vector<std::string> symbols,
           std::vector<std::string> units, ffi::Array<ffi::Tensor> buffers,
           ffi::Array<ffi::Array<std::int64_t>> lanes)
    : functions_(functions.begin(), functions.end()),
      symbols_(std::move(symbols)),
      units_(std::move(units)),
      buffers_(buffers.begin(), buffers.end()) {
  if (symbols_.size() != functions_.size()) {
    TVM_FFI_THROW(ValueError) << "the program has not one symbol a function";
  }
  std::vector<std::vector<std::int64_t>> codes;
  std::size_t total = 0;
  for (const ffi::Array<std::int64_t>& lane : lanes) {
    codes.emplace_back(lane.begin(), lane.end());
    total += codes.back().size();
  }
  // A launch has four numbers more in the code than it has arguments, so this is enough.
  arguments_.reserve(total);
  lanes_.resize(codes.size());
  for (std::size_t i = 0; i < codes.size(); ++i) lanes_[i] = Decode(codes[i]);
  RejectDeadlock();
}

// Runs the lanes with instantaneous kernels; what stays behind waits for ever.
void Plan::RejectDeadlock() const {
  const auto steps_of = [&](std::size_t lane) -> const auto& { return lanes_[lane].steps; };
  const auto nothing = [](std::size_t, const Step&) {};
  if (const auto lane = VisitInOrder(lanes_.size(), steps_of, nothing)) {
    TVM_FFI_THROW(ValueError) << "lane " << *lane << " of the program would wait for ever";
  }
}

Lane Plan::Decode(const std::vector<std::int64_t>& code) {
  Lane lane;
  Reader reader(code);
  while (!reader.done()) {
    Step step;
    if (reader.Index(2, "instruction") == 0) {
      step.lane = static_cast<std::int32_t>(reader.Index(lanes_.size(), "lane"));
      step.launches = reader.Index(std::size_t{1} << 62, "launch");
    } else {
      const std::size_t kernel = reader.Index(functions_.size(), "kernel");
      step.begin = reader.Next();
      step.end = reader.Next();
      step.kernel = static_cast<std::int32_t>(kernel);
      step.unit = static_cast<std::int32_t>(reader.Index(units_.size(), "unit"));
      step.function = &functions_[kernel];
      step.arguments = arguments_.data() + arguments_.size();
      const std::size_t first = arguments_.size();
      for (std::int64_t left = reader.Next(); left > 0; --left) {
        arguments_.emplace_back(buffers_[reader.Index(buffers_.size(), "buffer")]);
      }
      arguments_.emplace_back(step.begin);
      arguments_.emplace_back(step.end);
      step.argument_count = static_cast<std::int32_t>(arguments_.size() - first);
      lane.places.push_back(lane.steps.size());
      ++lane.launches;
    }
    lane.steps.push_back(step);
  }
  if (lane.launches > kMostCounted) {
    TVM_FFI_THROW(ValueError) << "a lane of the program has " << lane.launches
                              << " launches; there may be " << kMostCounted;
  }
  return lane;
}

std::string Plan::Describe(const Step& step, std::size_t lane) const {
  return "unit '" + units_[step.unit] + "' failed in kernel '" + symbols_[step.kernel] +
         "' on lane " + std::to_string(lane);
}

}  // namespace tvm_ios
