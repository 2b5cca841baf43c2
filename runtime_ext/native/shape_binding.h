// What a shape makes of an open program: the values of its symbols, by the inputs' shapes, of its
// expressions, and the places of its buffers in the arena.
#ifndef TVM_IOS_NATIVE_SHAPE_BINDING_H_
#define TVM_IOS_NATIVE_SHAPE_BINDING_H_

#include <cstdint>
#include <list>
#include <string>
#include <utility>
#include <vector>

#include "program_file.h"

namespace tvm_ios {

// An input as its user names it. Extents of the type may be references.
struct ShapedInput {
  std::string name;
  BufferType type;
};

struct BoundShape {
  // Of the symbols, and of all references.
  std::vector<std::int64_t> symbols;
  std::vector<std::int64_t> values;
  // Where each buffer of the memory plan lies, in its order, and the size of the arena.
  std::vector<std::size_t> offsets;
  std::size_t bytes = 0;
  // Which of the program's choices of lanes runs.
  std::size_t choice = 0;
};

// A type with the values of its references.
BufferType TypeAt(const BufferType& type, const std::vector<std::int64_t>& values);
// A type as far as it is known: extents that are open are -1.
BufferType KnownType(const BufferType& type);

class ShapeBinding {
 public:
  // Throws a Misfit if no input says what a symbol is, or a buffer or launch is none at an end of
  // the range.
  ShapeBinding(const Program& program, const MemoryPlan& memory, std::vector<ShapedInput> inputs);

  // Misuse if an input never has this shape, whatever the others have.
  void Require(std::size_t input, const BufferType& given) const;

  // What the shapes of all inputs make, each of which was required. Misuse if they do not agree. It
  // is kept until 32 other shapes were.
  const BoundShape& Settle(const std::vector<std::vector<std::int64_t>>& shapes);

  // What the largest extents of all symbols make. No shape whose buffers are not larger than there has
  // a larger arena.
  const BoundShape& Largest() const { return largest_; }

 private:
  // A buffer's bytes: an element's times extents, which are references.
  struct Size {
    std::size_t element;
    std::vector<std::int64_t> extents;

    std::size_t At(const std::vector<std::int64_t>& values) const;
  };
  struct Range {
    std::int64_t begin, end;
    std::size_t kernel;
  };
  // By which axis of which input a symbol is known.
  struct Source {
    std::size_t input = 0;
    std::size_t axis = 0;
    Expressions::Linear linear = {};
  };
  static constexpr std::size_t kKept = 32;

  // The first whose box has the symbols, or the program's own lanes.
  std::size_t Choice(const std::vector<std::int64_t>& symbols) const;

  std::vector<std::int64_t> Symbols(const std::vector<std::vector<std::int64_t>>& shapes) const;
  [[noreturn]] void Disagree(std::size_t input,
                             const std::vector<std::vector<std::int64_t>>& shapes,
                             const std::vector<std::int64_t>& values) const;
  // Throws a Misfit if a buffer or launch is none.
  void Check(const std::vector<std::int64_t>& values) const;
  void CheckCorners() const;
  std::vector<std::size_t> SizesAt(const std::vector<std::int64_t>& values) const;
  BoundShape PlaceLargest() const;
  void Place(BoundShape* shape) const;
  void PlaceByBestFit(BoundShape* shape) const;
  std::string TypeText(const BufferType& type) const;

  Expressions expressions_;
  MemoryPlan memory_;
  std::vector<ShapedInput> inputs_;
  // Of each symbol.
  std::vector<Source> sources_;
  // Of the planned buffers, in their order.
  std::vector<Size> sizes_;
  // All different ones of the program.
  std::vector<std::int64_t> extents_;
  std::vector<Range> ranges_;
  // Of the program's alternatives.
  std::vector<std::vector<std::pair<std::int64_t, std::int64_t>>> boxes_;
  std::vector<std::string> kernels_;
  std::vector<std::int64_t> tiles_;
  BoundShape largest_;
  // The last one is the first.
  std::list<BoundShape> kept_;
  std::vector<std::vector<std::int64_t>> last_shapes_;
};

}  // namespace tvm_ios

#endif  // TVM_IOS_NATIVE_SHAPE_BINDING_H_
