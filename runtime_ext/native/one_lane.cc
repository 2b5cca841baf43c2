#include "one_lane.h"

#include <utility>

#include "lane_order.h"

namespace tvm_ios {

namespace {

bool SameWork(const Item& one, const Item& other) {
  return one.kernel == other.kernel && one.unit == other.unit && one.buffers == other.buffers &&
         one.scalars == other.scalars;
}

// Adds a launch, to the last one if their tiles are adjacent ones of the same work. Equal expressions
// have one reference.
void Add(std::vector<Item>* launches, Item item) {
  if (!launches->empty() && SameWork(launches->back(), item)) {
    Item& last = launches->back();
    if (last.end == item.begin) {
      last.end = item.end;
      return;
    }
    if (item.end == last.begin) {
      last.begin = item.begin;
      return;
    }
  }
  launches->push_back(std::move(item));
}

}  // namespace

Program OnOneLane(const Program& program) {
  if (program.lanes.size() == 1) return program;
  const std::vector<std::vector<Item>> lanes = DecodeLanes(program);
  std::vector<Item> launches;
  const auto stuck = VisitInOrder(
      lanes.size(), [&](std::size_t lane) -> const auto& { return lanes[lane]; },
      [&](std::size_t, const Item& item) {
        if (!item.IsWait()) Add(&launches, item);
      });
  if (stuck) throw Misfit("lanes wait for one another for ever");
  Program one = program;
  one.lanes = {{}};
  one.alternatives.clear();
  for (const Item& item : launches) Encode(item, &one.lanes[0]);
  return one;
}

}  // namespace tvm_ios
