// Numbers that depend on the shape, as program.json has them: symbols, and expressions of them.
#ifndef TVM_IOS_NATIVE_EXPRESSIONS_H_
#define TVM_IOS_NATIVE_EXPRESSIONS_H_

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "json_text.h"

namespace tvm_ios {

// A whole number that each shape chooses, in a range that includes both.
struct Symbol {
  std::string name;
  std::int64_t least;
  std::int64_t most;
};

// Where a number may be open, a program has a reference: the number itself, which is never
// negative, or ~k for the k-th value, of which symbols are the first ones.
inline bool IsOpen(std::int64_t reference) { return reference < 0; }
inline std::int64_t At(std::int64_t reference, const std::vector<std::int64_t>& values) {
  return IsOpen(reference) ? values[~reference] : reference;
}

class Expressions {
 public:
  // No symbols.
  Expressions() = default;
  // The tables of a file, as tvm_ios/shapes/extent_json.py writes them. Throws a Misfit if they are
  // none, or have an expression that 64 bits do not hold in the whole range.
  explicit Expressions(const JsonObject& file);

  const std::vector<Symbol>& symbols() const { return symbols_; }
  // How many values there are.
  std::size_t size() const { return bounds_.size(); }
  bool open() const { return !symbols_.empty(); }

  // The reference that a file has; throws a Misfit.
  std::int64_t Read(const ffi::Any& value) const;
  std::vector<std::int64_t> ReadAll(const ffi::Any& list) const;
  // The reference of a symbol; throws a Misfit if there is none of this name.
  std::int64_t Named(const std::string& symbol) const;

  // All values, by those of the symbols, which are in their ranges.
  std::vector<std::int64_t> Evaluate(const std::vector<std::int64_t>& symbols) const;
  // Numbers between which a reference is in every shape.
  std::pair<std::int64_t, std::int64_t> Bounds(std::int64_t reference) const;

  // step * symbol + offset, with a positive step.
  struct Linear {
    std::size_t symbol;
    std::int64_t step;
    std::int64_t offset;
  };
  // A reference in this form; none if it has another one.
  std::optional<Linear> AsLinear(std::int64_t reference) const;

 private:
  // A sum of terms, or the quotient of a value, rounded down.
  struct Row {
    std::size_t first_term, last_term;
    std::size_t of;
    // 0 for a sum.
    std::int64_t divisor;
  };
  // A factor times values.
  struct Term {
    std::int64_t factor;
    std::size_t first_atom, last_atom;
  };

  void ReadSymbols(const ffi::Any& list);
  void ReadRow(const JsonArray& fields);
  std::size_t ReadValue(const ffi::Any& reference) const;
  std::pair<std::int64_t, std::int64_t> BoundsOf(const Row& row) const;

  std::vector<Symbol> symbols_;
  std::vector<Row> rows_;
  std::vector<Term> terms_;
  std::vector<std::size_t> atoms_;
  // Of each value.
  std::vector<std::pair<std::int64_t, std::int64_t>> bounds_;
};

}  // namespace tvm_ios

#endif  // TVM_IOS_NATIVE_EXPRESSIONS_H_
