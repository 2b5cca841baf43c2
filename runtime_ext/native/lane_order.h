// An order in which the lanes of a program may run.
#ifndef TVM_IOS_NATIVE_LANE_ORDER_H_
#define TVM_IOS_NATIVE_LANE_ORDER_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

namespace tvm_ios {

// Visits all items of `lanes` lanes, of which `items_of(lane)` gives the list, in an order in which
// they may run: lane by lane, each as far as its waits allow, until none gets further. Calls
// `visit(lane, item)` for each. Returns the first lane that would wait for ever, if there is one.
template <typename ItemsOf, typename Visit>
std::optional<std::size_t> VisitInOrder(std::size_t lanes, ItemsOf items_of, Visit visit) {
  std::vector<std::size_t> visited(lanes);
  std::vector<std::uint64_t> launched(lanes);
  for (bool moved = true; moved;) {
    moved = false;
    for (std::size_t lane = 0; lane < lanes; ++lane) {
      const auto& items = items_of(lane);
      for (; visited[lane] < items.size(); ++visited[lane], moved = true) {
        const auto& item = items[visited[lane]];
        if (!item.IsWait()) {
          ++launched[lane];
        } else if (launched[item.lane] < item.launches) {
          break;
        }
        visit(lane, item);
      }
    }
  }
  for (std::size_t lane = 0; lane < lanes; ++lane) {
    if (visited[lane] < items_of(lane).size()) return lane;
  }
  return std::nullopt;
}

}  // namespace tvm_ios

#endif  // TVM_IOS_NATIVE_LANE_ORDER_H_
