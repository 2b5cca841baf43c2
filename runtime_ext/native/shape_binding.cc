#include "shape_binding.h"

#include <algorithm>
#include <iterator>
#include <limits>
#include <set>
#include <tuple>
#include <utility>

#include "model_session.h"

namespace tvm_ios {

namespace {

// Every end of the ranges of so many symbols is looked at when a program is read.
constexpr std::size_t kMostSymbols = 10;

std::size_t RoundUp(std::size_t bytes) {
  return std::max(kAlignment, (bytes + kAlignment - 1) / kAlignment * kAlignment);
}

std::string Name(const ShapedInput& input, const std::vector<std::int64_t>& shape) {
  return "input '" + input.name + "' is " + BufferType{shape, input.type.dtype}.Name();
}

}  // namespace

BufferType TypeAt(const BufferType& type, const std::vector<std::int64_t>& values) {
  BufferType known = type;
  for (std::int64_t& extent : known.shape) extent = At(extent, values);
  return known;
}

BufferType KnownType(const BufferType& type) {
  BufferType known = type;
  for (std::int64_t& extent : known.shape) extent = std::max(extent, std::int64_t{-1});
  return known;
}

std::size_t ShapeBinding::Size::At(const std::vector<std::int64_t>& values) const {
  std::size_t bytes = element;
  for (std::int64_t extent : extents) {
    bytes *= static_cast<std::size_t>(tvm_ios::At(extent, values));
  }
  return bytes;
}

ShapeBinding::ShapeBinding(const Program& program, const MemoryPlan& memory,
                           std::vector<ShapedInput> inputs)
    : expressions_(program.expressions),
      memory_(memory),
      inputs_(std::move(inputs)),
      kernels_(program.kernels),
      tiles_(program.tiles) {
  const std::size_t symbols = expressions_.symbols().size();
  if (symbols > kMostSymbols) {
    throw Misfit("the program has " + std::to_string(symbols) + " symbols; there may be " +
                 std::to_string(kMostSymbols));
  }
  std::vector<bool> known(symbols);
  sources_.resize(symbols);
  for (std::size_t i = 0; i < inputs_.size(); ++i) {
    for (std::size_t axis = 0; axis < inputs_[i].type.shape.size(); ++axis) {
      const auto linear = expressions_.AsLinear(inputs_[i].type.shape[axis]);
      if (!linear || known[linear->symbol]) continue;
      known[linear->symbol] = true;
      sources_[linear->symbol] = {i, axis, *linear};
    }
  }
  for (std::size_t i = 0; i < symbols; ++i) {
    if (!known[i]) {
      throw Misfit("no input says what '" + expressions_.symbols()[i].name + "' is");
    }
  }
  for (std::size_t buffer : memory_.order) {
    const BufferType& type = program.buffers[buffer].type;
    sizes_.push_back({type.Element().bits / std::size_t{8}, type.shape});
  }
  std::set<std::int64_t> extents;
  for (const Buffer& buffer : program.buffers) {
    for (std::int64_t extent : buffer.type.shape) {
      if (IsOpen(extent)) extents.insert(extent);
    }
  }
  extents_.assign(extents.begin(), extents.end());
  std::set<std::tuple<std::int64_t, std::int64_t, std::size_t>> ranges;
  for (std::size_t choice = 0; choice < program.choices(); ++choice) {
    for (const std::vector<Item>& lane : DecodeLanes(program, choice)) {
      for (const Item& item : lane) {
        const auto kernel = static_cast<std::size_t>(item.kernel);
        if (!item.IsWait()) ranges.emplace(item.begin, item.end, kernel);
      }
    }
  }
  for (const Alternative& alternative : program.alternatives) boxes_.push_back(alternative.box);
  for (const auto& [begin, end, kernel] : ranges) ranges_.push_back({begin, end, kernel});
  CheckCorners();
  largest_ = PlaceLargest();
}

void ShapeBinding::CheckCorners() const {
  const std::vector<Symbol>& symbols = expressions_.symbols();
  std::vector<std::int64_t> corner(symbols.size());
  for (std::size_t ends = 0; ends < std::size_t{1} << symbols.size(); ++ends) {
    for (std::size_t i = 0; i < symbols.size(); ++i) {
      corner[i] = ends >> i & 1 ? symbols[i].most : symbols[i].least;
    }
    Check(expressions_.Evaluate(corner));
  }
}

void ShapeBinding::Check(const std::vector<std::int64_t>& values) const {
  const auto where = [&] {
    std::string text = " where ";
    const std::vector<Symbol>& symbols = expressions_.symbols();
    for (std::size_t i = 0; i < symbols.size(); ++i) {
      text += (i == 0 ? "" : ", ") + symbols[i].name + " is " + std::to_string(values[i]);
    }
    return text;
  };
  for (std::int64_t extent : extents_) {
    if (At(extent, values) < 0) {
      throw Misfit("a buffer has " + std::to_string(At(extent, values)) + " elements" + where());
    }
  }
  for (const Range& range : ranges_) {
    const std::int64_t begin = At(range.begin, values), end = At(range.end, values);
    const std::int64_t tiles = At(tiles_[range.kernel], values);
    if (begin < 0 || begin > end || end > tiles) {
      throw Misfit("a lane launches the tiles " + std::to_string(begin) + " to " +
                   std::to_string(end) + " of kernel '" + kernels_[range.kernel] +
                   "', which has " + std::to_string(tiles) + where());
    }
  }
}

std::string ShapeBinding::TypeText(const BufferType& type) const {
  std::string text = type.dtype + "[";
  for (std::size_t axis = 0; axis < type.shape.size(); ++axis) {
    const std::int64_t extent = type.shape[axis];
    text += axis == 0 ? "" : ", ";
    if (!IsOpen(extent)) {
      text += std::to_string(extent);
      continue;
    }
    const auto [least, most] = expressions_.Bounds(extent);
    const auto linear = expressions_.AsLinear(extent);
    text += std::to_string(least) + ".." + std::to_string(most);
    if (linear && linear->step > 1) text += ":" + std::to_string(linear->step);
  }
  return text + "]";
}

void ShapeBinding::Require(std::size_t input, const BufferType& given) const {
  const ShapedInput& known = inputs_[input];
  bool fits = given.shape.size() == known.type.shape.size();
  for (std::size_t axis = 0; fits && axis < given.shape.size(); ++axis) {
    const std::int64_t extent = given.shape[axis];
    const auto [least, most] = expressions_.Bounds(known.type.shape[axis]);
    const auto linear = expressions_.AsLinear(known.type.shape[axis]);
    fits = least <= extent && extent <= most &&
           (!linear || (extent - linear->offset) % linear->step == 0);
  }
  if (!fits) {
    Misuse(Name(known, given.shape) + " and the program takes " + TypeText(known.type));
  }
}

std::vector<std::int64_t> ShapeBinding::Symbols(
    const std::vector<std::vector<std::int64_t>>& shapes) const {
  std::vector<std::int64_t> symbols;
  for (const Source& source : sources_) {
    symbols.push_back((shapes[source.input][source.axis] - source.linear.offset) /
                      source.linear.step);
  }
  return symbols;
}

std::size_t ShapeBinding::Choice(const std::vector<std::int64_t>& symbols) const {
  const auto found = std::find_if(boxes_.begin(), boxes_.end(), [&](const auto& box) {
    for (std::size_t i = 0; i < symbols.size(); ++i) {
      if (symbols[i] < box[i].first || symbols[i] > box[i].second) return false;
    }
    return true;
  });
  return found == boxes_.end() ? 0 : 1 + static_cast<std::size_t>(found - boxes_.begin());
}

void ShapeBinding::Disagree(std::size_t input,
                            const std::vector<std::vector<std::int64_t>>& shapes,
                            const std::vector<std::int64_t>& values) const {
  const std::vector<std::int64_t> needed = TypeAt(inputs_[input].type, values).shape;
  std::string others;
  // The inputs by which the extents that differ are known.
  for (std::size_t axis = 0; axis < needed.size(); ++axis) {
    const auto linear = expressions_.AsLinear(inputs_[input].type.shape[axis]);
    if (!linear || needed[axis] == shapes[input][axis]) continue;
    const std::size_t other = sources_[linear->symbol].input;
    others += (others.empty() ? "" : " and ") + Name(inputs_[other], shapes[other]);
  }
  Misuse(Name(inputs_[input], shapes[input]) + " and " + (others.empty() ? "" : others + ": ") +
         "by the other inputs '" + inputs_[input].name + "' has to be " +
         BufferType{needed, inputs_[input].type.dtype}.Name());
}

const BoundShape& ShapeBinding::Settle(const std::vector<std::vector<std::int64_t>>& shapes) {
  if (!kept_.empty() && shapes == last_shapes_) return kept_.front();
  const std::vector<std::int64_t> symbols = Symbols(shapes);
  const auto found = std::find_if(kept_.begin(), kept_.end(), [&](const BoundShape& shape) {
    return shape.symbols == symbols;
  });
  BoundShape made;
  if (found == kept_.end()) {
    made.symbols = symbols;
    made.values = expressions_.Evaluate(symbols);
    made.choice = Choice(symbols);
  }
  const std::vector<std::int64_t>& values = found == kept_.end() ? made.values : found->values;
  for (std::size_t i = 0; i < inputs_.size(); ++i) {
    for (std::size_t axis = 0; axis < shapes[i].size(); ++axis) {
      if (At(inputs_[i].type.shape[axis], values) != shapes[i][axis]) Disagree(i, shapes, values);
    }
  }
  if (found == kept_.end()) {
    try {
      Check(values);
    } catch (const Misfit& misfit) {
      throw ffi::Error("ExecutableError",
                       std::string("the program cannot be run: ") + misfit.what(), "");
    }
    Place(&made);
    kept_.push_front(std::move(made));
    if (kept_.size() > kKept) kept_.pop_back();
  } else {
    kept_.splice(kept_.begin(), kept_, found);
  }
  last_shapes_ = shapes;
  return kept_.front();
}

std::vector<std::size_t> ShapeBinding::SizesAt(const std::vector<std::int64_t>& values) const {
  std::vector<std::size_t> sizes;
  for (const Size& size : sizes_) sizes.push_back(RoundUp(size.At(values)));
  return sizes;
}

BoundShape ShapeBinding::PlaceLargest() const {
  BoundShape largest;
  for (const Symbol& symbol : expressions_.symbols()) largest.symbols.push_back(symbol.most);
  largest.values = expressions_.Evaluate(largest.symbols);
  // Before it is placed any other is smaller.
  largest.bytes = std::numeric_limits<std::size_t>::max();
  double all = 0;
  for (const Size& size : sizes_) {
    double bytes = static_cast<double>(size.element);
    for (std::int64_t extent : size.extents) {
      bytes *= static_cast<double>(tvm_ios::At(extent, largest.values));
    }
    all += bytes;
  }
  // Of what no memory holds nothing is placed, and no number overflows.
  if (all < 0x1p60) {
    BoundShape placed = largest;
    placed.bytes = 0;
    PlaceByBestFit(&placed);
    return placed;
  }
  return largest;
}

void ShapeBinding::Place(BoundShape* shape) const {
  PlaceByBestFit(shape);
  if (shape->bytes <= largest_.bytes) return;
  // Best-fit may take more for a smaller shape. The places of the largest one hold all that is smaller.
  const std::vector<std::size_t> sizes = SizesAt(shape->values), most = SizesAt(largest_.values);
  for (std::size_t i = 0; i < sizes.size(); ++i) {
    if (sizes[i] > most[i]) return;
  }
  shape->offsets = largest_.offsets;
  shape->bytes = largest_.bytes;
}

// As tvm_ios/program/arena/best_fit.py does it: one buffer after another takes the
// smallest gap, or the lowest, between those that it may share no byte with.
void ShapeBinding::PlaceByBestFit(BoundShape* shape) const {
  const std::size_t count = sizes_.size();
  std::vector<std::size_t> ends(count);
  const std::vector<std::size_t> sizes = SizesAt(shape->values);
  shape->offsets.resize(count);
  std::vector<std::pair<std::size_t, std::size_t>> near;
  for (std::size_t place = 0; place < count; ++place) {
    near.clear();
    for (std::size_t other : memory_.conflicts[place]) {
      near.emplace_back(shape->offsets[other], ends[other]);
    }
    std::sort(near.begin(), near.end());
    std::size_t end = 0, offset = 0, room = 0;
    bool fits = false;
    for (const auto& [other_begin, other_end] : near) {
      const std::size_t gap = other_begin > end ? other_begin - end : 0;
      if (gap >= sizes[place] && (!fits || (gap < room && !memory_.lowest))) {
        fits = true;
        offset = end;
        room = gap;
      }
      end = std::max(end, other_end);
    }
    if (!fits) offset = end;
    shape->offsets[place] = offset;
    ends[place] = offset + sizes[place];
    shape->bytes = std::max(shape->bytes, ends[place]);
    // Whatever was written above, no two buffers that are needed at once share bytes.
    for (std::size_t other : memory_.conflicts[place]) {
      if (offset < ends[other] && shape->offsets[other] < ends[place]) {
        throw ffi::Error("ExecutableError", "two buffers of the program got the same bytes", "");
      }
    }
  }
}

}  // namespace tvm_ios
