#include "plan.h"

#include <algorithm>
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

  // A number, or a reference to one of so many values.
  std::int64_t Number(std::size_t values) {
    const std::int64_t number = Next();
    if (number < 0 && static_cast<std::size_t>(~number) >= values) {
      TVM_FFI_THROW(ValueError) << "the program names value " << ~number << " of " << values;
    }
    return number;
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
           ffi::Array<ffi::Array<std::int64_t>> lanes, std::size_t values)
    : functions_(functions.begin(), functions.end()),
      symbols_(std::move(symbols)),
      units_(std::move(units)),
      buffers_(buffers.begin(), buffers.end()),
      values_(values) {
  if (symbols_.size() != functions_.size()) {
    TVM_FFI_THROW(ValueError) << "the program has not one symbol a function";
  }
  std::vector<std::vector<std::int64_t>> codes;
  std::size_t total = 0;
  for (const ffi::Array<std::int64_t>& lane : lanes) {
    codes.emplace_back(lane.begin(), lane.end());
    total += codes.back().size();
  }
  // A launch has more numbers in the code than it has arguments, so this is enough.
  arguments_.reserve(total);
  lanes_.resize(codes.size());
  for (std::size_t i = 0; i < codes.size(); ++i) lanes_[i] = Decode(codes[i], i);
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

void Plan::Bind(const std::vector<std::int64_t>& values) {
  for (const Argument& open : open_arguments_) arguments_[open.place] = values[open.value];
  for (const Tiles& open : open_tiles_) {
    Step& step = lanes_[open.lane].steps[open.step];
    if (open.begin < 0) step.begin = values[~open.begin];
    if (open.end < 0) step.end = values[~open.end];
  }
}

// A number, or a reference.
void Plan::AddArgument(std::int64_t number) {
  if (number < 0) open_arguments_.push_back({arguments_.size(), static_cast<std::size_t>(~number)});
  arguments_.emplace_back(number < 0 ? std::int64_t{0} : number);
}

Lane Plan::Decode(const std::vector<std::int64_t>& code, std::size_t number) {
  Lane lane;
  Reader reader(code);
  while (!reader.done()) {
    Step step;
    const std::size_t instruction = reader.Index(3, "instruction");
    if (instruction == 0) {
      step.lane = static_cast<std::int32_t>(reader.Index(lanes_.size(), "lane"));
      step.launches = reader.Index(std::size_t{1} << 62, "launch");
    } else {
      const std::size_t kernel = reader.Index(functions_.size(), "kernel");
      const std::int64_t begin = reader.Number(values_), end = reader.Number(values_);
      step.begin = std::max(begin, std::int64_t{0});
      step.end = std::max(end, std::int64_t{0});
      if (begin < 0 || end < 0) open_tiles_.push_back({number, lane.steps.size(), begin, end});
      step.kernel = static_cast<std::int32_t>(kernel);
      step.unit = static_cast<std::int32_t>(reader.Index(units_.size(), "unit"));
      step.function = &functions_[kernel];
      step.arguments = arguments_.data() + arguments_.size();
      const std::size_t first = arguments_.size();
      for (std::int64_t left = reader.Next(); left > 0; --left) {
        arguments_.emplace_back(buffers_[reader.Index(buffers_.size(), "buffer")]);
      }
      for (std::int64_t left = instruction == 2 ? reader.Next() : 0; left > 0; --left) {
        AddArgument(reader.Number(values_));
      }
      AddArgument(begin);
      AddArgument(end);
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
