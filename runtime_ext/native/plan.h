// A program made ready to run: functions resolved, argument arrays built once.
#ifndef TVM_IOS_NATIVE_PLAN_H_
#define TVM_IOS_NATIVE_PLAN_H_

#include <tvm/ffi/tvm_ffi.h>

#include <cstdint>
#include <string>
#include <vector>

namespace tvm_ios {

namespace ffi = tvm::ffi;

// One instruction of a lane. A wait has no function.
struct Step {
  const ffi::Function* function = nullptr;
  const ffi::AnyView* arguments = nullptr;
  std::int32_t argument_count = 0;
  std::int32_t kernel = 0;
  std::int32_t unit = 0;
  std::int32_t lane = 0;
  std::uint64_t launches = 0;
  // The tiles of a launch, which are its last two arguments.
  std::int64_t begin = 0;
  std::int64_t end = 0;

  bool IsWait() const { return function == nullptr; }
};

struct Lane {
  std::vector<Step> steps;
  std::uint64_t launches = 0;
  // Where each launch is among the steps. Between two of them are the waits of the later one.
  std::vector<std::size_t> places;
};

class Plan {
 public:
  // Each lane is a flat list of instructions: (0, lane, launches) for a wait,
  // (1, kernel, begin, end, unit, n, n buffers) for a launch, and the same with 2 and at the end
  // (m, m scalars) for a launch of a kernel that takes scalars. Throws a ValueError that names the
  // fault if it names what does not exist or would wait for ever.
  //
  // With so many `values` the tiles and scalars may be references to them: ~k for the k-th one. They
  // are 0 until Bind.
  Plan(ffi::Array<ffi::Function> functions, std::vector<std::string> symbols,
       std::vector<std::string> units, ffi::Array<ffi::Tensor> buffers,
       ffi::Array<ffi::Array<std::int64_t>> lanes, std::size_t values = 0);
  Plan(const Plan&) = delete;
  Plan& operator=(const Plan&) = delete;

  // Gives references their values, in place; nothing may run.
  void Bind(const std::vector<std::int64_t>& values);

  const std::vector<Lane>& lanes() const { return lanes_; }
  const std::string& symbol(const Step& step) const { return symbols_[step.kernel]; }
  const std::string& unit(const Step& step) const { return units_[step.unit]; }
  std::string Describe(const Step& step, std::size_t lane) const;

 private:
  // An argument that is a value, and tiles of a step of which one is.
  struct Argument {
    std::size_t place;
    std::size_t value;
  };
  struct Tiles {
    std::size_t lane;
    std::size_t step;
    std::int64_t begin;
    std::int64_t end;
  };

  Lane Decode(const std::vector<std::int64_t>& code, std::size_t number);
  void AddArgument(std::int64_t number);
  void RejectDeadlock() const;

  std::vector<ffi::Function> functions_;
  std::vector<std::string> symbols_;
  std::vector<std::string> units_;
  std::vector<ffi::Tensor> buffers_;
  // Never grows after the lanes point into it.
  std::vector<ffi::AnyView> arguments_;
  std::vector<Lane> lanes_;
  std::size_t values_;
  std::vector<Argument> open_arguments_;
  std::vector<Tiles> open_tiles_;
};

}  // namespace tvm_ios

#endif  // TVM_IOS_NATIVE_PLAN_H_
