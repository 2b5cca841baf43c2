#include "one_lane.h"

#include <utility>

namespace tvm_ios {

namespace {

bool SameWork(const Item& one, const Item& other) {
  return one.kernel == other.kernel && one.unit == other.unit && one.buffers == other.buffers;
}

// Adds a launch, to the last one if their tiles are adjacent ones of the same work.
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

std::vector<std::int64_t> Encode(const std::vector<Item>& launches) {
  std::vector<std::int64_t> code;
  for (const Item& item : launches) {
    code.insert(code.end(), {1, item.kernel, item.begin, item.end,
                             static_cast<std::int64_t>(item.unit),
                             static_cast<std::int64_t>(item.buffers.size())});
    code.insert(code.end(), item.buffers.begin(), item.buffers.end());
  }
  return code;
}

}  // namespace

Program OnOneLane(const Program& program) {
  if (program.lanes.size() == 1) return program;
  const std::vector<std::vector<Item>> lanes = DecodeLanes(program);
  std::vector<std::size_t> position(lanes.size()), launched(lanes.size());
  std::vector<Item> launches;
  for (bool moved = true; moved;) {
    moved = false;
    for (std::size_t lane = 0; lane < lanes.size(); ++lane) {
      for (; position[lane] < lanes[lane].size(); ++position[lane], moved = true) {
        const Item& item = lanes[lane][position[lane]];
        if (item.kernel >= 0) {
          Add(&launches, item);
          ++launched[lane];
        } else if (launched[item.lane] < item.launches) {
          break;
        }
      }
    }
  }
  for (std::size_t lane = 0; lane < lanes.size(); ++lane) {
    if (position[lane] != lanes[lane].size()) throw Misfit("lanes wait for one another for ever");
  }
  Program one = program;
  one.lanes = {Encode(launches)};
  return one;
}

}  // namespace tvm_ios
