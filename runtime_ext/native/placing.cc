// Places buffers in an arena of a given capacity, by depth-first search.
//
// Buffers are placed one after another, each at the lowest offset that earlier ones leave it, in
// the order of their offsets: every plan can be pushed down to one that such an order makes (a
// canonical one; Moffitt, MiniMalloc, ASPLOS 2023). A branch ends where
//  - a clique, a set of buffers that all conflict with each other, has no room for those of it that
//    are left, above the lowest offset that one of them can have;
//  - all buffers that such a clique can begin with were passed over;
//  - a buffer is passed over that would have fitted wholly below the next one;
//  - a buffer was passed over, and nothing that is left can raise it.
// Buffers that are connected by no conflict any more are placed part by part.
//
// Orders of preference take turns, each with a limit of nodes. From one turn to the next they are
// shuffled a little, and buffers of cliques that ended many branches are preferred. Nothing but the
// time limit differs from one machine to another.
#include <algorithm>
#include <array>
#include <chrono>
#include <cstdint>
#include <limits>
#include <numeric>
#include <random>
#include <utility>
#include <vector>

namespace {

using Clock = std::chrono::steady_clock;

// Lists of numbers, one behind the other: those of `i` begin at `begins[i]`.
struct Lists {
  const std::int32_t* begins;
  const std::int32_t* members;

  const std::int32_t* begin(int i) const { return members + begins[i]; }
  const std::int32_t* end(int i) const { return members + begins[i + 1]; }
};

struct Problem {
  int count;
  const std::int64_t* sizes;
  // For each buffer the others that it conflicts with, and the cliques that it is in; for each
  // clique its buffers. Any two that conflict are in a common clique.
  Lists near, cliques_of;
  int cliques;
  Lists members;
  std::int64_t capacity;
};

enum class Outcome { kFound, kNone, kLimit };

class Search {
 public:
  // Counts in `blame` how many branches each buffer's cliques ended.
  Search(const Problem& problem, const volatile std::int32_t& stopped, Clock::time_point until,
         std::vector<double>* blame)
      : problem_(problem),
        stopped_(stopped),
        until_(until),
        blame_(*blame),
        lowest_(problem.count, 0),
        offsets_(problem.count, -1),
        floors_(problem.cliques, 0),
        left_(problem.cliques, 0),
        seen_(problem.cliques, 0),
        part_of_(problem.count, 0) {
    for (int clique = 0; clique < problem.cliques; ++clique) {
      for (auto b = problem.members.begin(clique); b != problem.members.end(clique); ++b) {
        left_[clique] += problem.sizes[*b];
      }
    }
  }

  // Looks at so many nodes at most, and counts them down; `order` has the preferred buffers first.
  Outcome Run(const std::vector<std::int32_t>& order, std::int64_t* nodes) {
    rank_.resize(order.size());
    for (std::size_t place = 0; place < order.size(); ++place) rank_[order[place]] = place;
    nodes_ = *nodes;
    limited_ = false;
    const bool found = Parts(order, 0, -1);
    *nodes = nodes_;
    return found ? Outcome::kFound : limited_ ? Outcome::kLimit : Outcome::kNone;
  }

  const std::vector<std::int64_t>& offsets() const { return offsets_; }

 private:
  using Numbers = std::vector<std::int32_t>;

  struct Change {
    std::int32_t index;
    std::int64_t before;
  };

  // Buffers that are connected by conflicts, and the cliques that they are in.
  struct Part {
    Numbers buffers, cliques;
  };

  // Places the buffers, each of its connected parts by itself.
  bool Parts(const Numbers& buffers, std::int64_t level, int rank) {
    const std::vector<Part> parts = Split(buffers);
    const std::size_t lowest = raised_.size(), floors = filled_.size();
    for (std::size_t done = 0; done < parts.size(); ++done) {
      if (Branch(parts[done].buffers, parts[done].cliques, level, rank)) continue;
      for (std::size_t part = 0; part < done; ++part) {
        for (int buffer : parts[part].buffers) Remove(buffer);
      }
      Undo(lowest, floors);
      return false;
    }
    return true;
  }

  bool Branch(const Numbers& buffers, const Numbers& cliques, std::int64_t level, int rank) {
    if (nodes_ <= 0 || stopped_ != 0 || (nodes_ % 256 == 0 && Clock::now() > until_)) {
      limited_ = true;
      return false;
    }
    --nodes_;
    std::int64_t below = kMost, top = kMost;
    for (int buffer : buffers) {
      below = std::min(below, lowest_[buffer] + problem_.sizes[buffer]);
      top = std::min(top, std::max(lowest_[buffer], level) + problem_.sizes[buffer]);
    }
    for (int clique : cliques) {
      if (left_[clique] == 0 || top + left_[clique] <= problem_.capacity) continue;
      // It must begin with a buffer that was not passed over.
      const auto end = problem_.members.end(clique);
      const auto first = std::find_if(problem_.members.begin(clique), end, [&](int buffer) {
        const std::int64_t offset = lowest_[buffer];
        return offsets_[buffer] < 0 && offset + left_[clique] <= problem_.capacity &&
               (offset > level || (offset == level && rank_[buffer] >= rank));
      });
      if (first == end) return Blame(clique);
    }
    // All that is left of a clique lies above the next buffer.
    std::int64_t most = problem_.capacity;
    for (int clique : cliques) most = std::min(most, problem_.capacity - left_[clique]);
    below = std::min(below, most + 1);
    std::vector<std::pair<std::int64_t, std::int32_t>> next;
    for (int buffer : buffers) {
      const std::int64_t offset = lowest_[buffer];
      if (offset < level || (offset == level && rank_[buffer] < rank)) {
        // Something has to be put below it.
        if (top + problem_.sizes[buffer] > problem_.capacity) return false;
      } else if (offset < below) {
        next.emplace_back(offset, rank_[buffer]);
      }
    }
    std::sort(next.begin(), next.end());
    Numbers rest(buffers.size() - 1);
    const std::size_t lowest = raised_.size(), floors = filled_.size();
    for (const auto& [offset, chosen] : next) {
      const auto found = std::find_if(buffers.begin(), buffers.end(),
                                      [&](int buffer) { return rank_[buffer] == chosen; });
      const int buffer = *found;
      bool splits = false, alone = true;
      if (Place(buffer, cliques, &splits, &alone)) {
        std::copy(found + 1, buffers.end(), std::copy(buffers.begin(), found, rest.begin()));
        if (rest.empty()) return true;
        if (splits ? Parts(rest, offset, chosen) : Branch(rest, cliques, offset, chosen)) {
          return true;
        }
      }
      Remove(buffer);
      Undo(lowest, floors);
      // Where nothing is left above it, it takes no room from others: no other choice is better.
      if (limited_ || alone) return false;
    }
    return false;
  }

  // Places a buffer, and tells whether all cliques still have room.
  bool Place(int buffer, const Numbers& cliques, bool* splits, bool* alone) {
    const std::int64_t level = lowest_[buffer], size = problem_.sizes[buffer], top = level + size;
    offsets_[buffer] = level;
    ++stamp_;
    changed_.clear();
    for (auto q = problem_.cliques_of.begin(buffer); q != problem_.cliques_of.end(buffer); ++q) {
      left_[*q] -= size;
      if (left_[*q] == 0) *splits = true;
      if (floors_[*q] == level) Note(*q);
    }
    bool fits = top <= problem_.capacity;
    for (auto other = problem_.near.begin(buffer); other != problem_.near.end(buffer); ++other) {
      if (offsets_[*other] >= 0) continue;
      *alone = false;
      const std::int64_t before = lowest_[*other];
      if (before >= top) continue;
      raised_.push_back({*other, before});
      lowest_[*other] = top;
      fits = fits && top + problem_.sizes[*other] <= problem_.capacity;
      for (auto q = problem_.cliques_of.begin(*other); q != problem_.cliques_of.end(*other); ++q) {
        if (floors_[*q] == before) Note(*q);
      }
    }
    if (!fits) return false;
    for (int clique : changed_) {
      std::int64_t floor = kMost;
      for (auto b = problem_.members.begin(clique); b != problem_.members.end(clique); ++b) {
        if (offsets_[*b] < 0) floor = std::min(floor, lowest_[*b]);
      }
      if (floor == kMost) floor = 0;
      if (floor != floors_[clique]) {
        filled_.push_back({clique, floors_[clique]});
        floors_[clique] = floor;
      }
    }
    for (int clique : cliques) {
      if (left_[clique] == 0) continue;
      const std::int64_t floor = std::max(floors_[clique], level);
      if (floor + left_[clique] > problem_.capacity) return Blame(clique);
    }
    return true;
  }

  // Notes that what is left of a clique ended a branch; returns false.
  bool Blame(int clique) {
    for (auto b = problem_.members.begin(clique); b != problem_.members.end(clique); ++b) {
      if (offsets_[*b] < 0) blame_[*b] += 1;
    }
    return false;
  }

  void Note(int clique) {
    if (seen_[clique] == stamp_) return;
    seen_[clique] = stamp_;
    changed_.push_back(clique);
  }

  void Remove(int buffer) {
    offsets_[buffer] = -1;
    for (auto q = problem_.cliques_of.begin(buffer); q != problem_.cliques_of.end(buffer); ++q) {
      left_[*q] += problem_.sizes[buffer];
    }
  }

  void Undo(std::size_t lowest, std::size_t floors) {
    for (; raised_.size() > lowest; raised_.pop_back()) {
      lowest_[raised_.back().index] = raised_.back().before;
    }
    for (; filled_.size() > floors; filled_.pop_back()) {
      floors_[filled_.back().index] = filled_.back().before;
    }
  }

  // Returns the connected parts of buffers, small ones first.
  std::vector<Part> Split(const Numbers& buffers) {
    const std::int64_t unseen = ++part_;
    for (int buffer : buffers) part_of_[buffer] = unseen;
    std::vector<Part> parts;
    for (int first : buffers) {
      if (part_of_[first] != unseen) continue;
      Part part{{first}, {}};
      part_of_[first] = ++part_;
      ++stamp_;
      changed_.clear();
      for (std::size_t place = 0; place < part.buffers.size(); ++place) {
        const int buffer = part.buffers[place];
        for (auto o = problem_.near.begin(buffer); o != problem_.near.end(buffer); ++o) {
          if (part_of_[*o] != unseen) continue;
          part_of_[*o] = part_;
          part.buffers.push_back(*o);
        }
        const auto end = problem_.cliques_of.end(buffer);
        for (auto q = problem_.cliques_of.begin(buffer); q != end; ++q) Note(*q);
      }
      part.cliques = changed_;
      parts.push_back(std::move(part));
    }
    std::stable_sort(parts.begin(), parts.end(), [](const Part& a, const Part& b) {
      return a.buffers.size() < b.buffers.size();
    });
    return parts;
  }

  static constexpr std::int64_t kMost = std::numeric_limits<std::int64_t>::max();

  const Problem& problem_;
  const volatile std::int32_t& stopped_;
  const Clock::time_point until_;
  std::vector<double>& blame_;
  // For each buffer the lowest offset that those placed leave it, its own offset, and its rank.
  std::vector<std::int64_t> lowest_, offsets_;
  std::vector<std::int32_t> rank_;
  // For each clique the lowest offset of a buffer that is left of it, and the sum of their sizes.
  std::vector<std::int64_t> floors_, left_;
  std::vector<std::int64_t> seen_, part_of_;
  std::int64_t stamp_ = 0, part_ = 0;
  std::vector<Change> raised_, filled_;
  std::vector<std::int32_t> changed_;
  std::int64_t nodes_ = 0;
  bool limited_ = false;
};

// Orders of buffers that take turns: by the length of their life, their area, and the load of their
// fullest clique, the first of which counts most.
class Orders {
 public:
  Orders(const Problem& problem, const std::int64_t* lived) : generator_(0) {
    std::vector<std::int64_t> loads(problem.count, 0);
    for (int clique = 0; clique < problem.cliques; ++clique) {
      std::int64_t load = 0;
      for (auto b = problem.members.begin(clique); b != problem.members.end(clique); ++b) {
        load += problem.sizes[*b];
      }
      for (auto b = problem.members.begin(clique); b != problem.members.end(clique); ++b) {
        loads[*b] = std::max(loads[*b], load);
      }
    }
    const auto order = [&](auto key) {
      std::vector<std::int32_t> buffers(problem.count);
      std::iota(buffers.begin(), buffers.end(), 0);
      const auto before = [&](int a, int b) { return key(a) > key(b); };
      std::stable_sort(buffers.begin(), buffers.end(), before);
      return buffers;
    };
    using Key = std::array<std::int64_t, 3>;
    const auto area = [&](int b) { return lived[b] * problem.sizes[b]; };
    orders_ = {order([&](int b) { return Key{lived[b], area(b), loads[b]}; }),
               order([&](int b) { return Key{loads[b], area(b), lived[b]}; }),
               order([&](int b) { return Key{loads[b], lived[b], area(b)}; })};
  }

  std::size_t count() const { return orders_.size(); }

  const std::vector<std::int32_t>& plain(std::size_t number) const { return orders_[number]; }

  // Returns an order that is shuffled a little, with buffers that are to blame before others.
  std::vector<std::int32_t> shuffled(std::size_t number, const std::vector<double>& blame) {
    constexpr std::array<double, 5> kWeights = {0, 0.1, 0.3, 1, 3};
    const double weight = kWeights[generator_() % kWeights.size()];
    const double most = 1 + *std::max_element(blame.begin(), blame.end());
    const std::vector<std::int32_t>& order = orders_[number];
    std::vector<std::pair<double, std::int32_t>> places;
    for (std::size_t place = 0; place < order.size(); ++place) {
      const double usual = static_cast<double>(place) / order.size();
      const double shift = kShuffle * (Uniform() + Uniform() - 1);
      places.emplace_back(usual + shift - weight * blame[order[place]] / most, order[place]);
    }
    std::sort(places.begin(), places.end());
    std::vector<std::int32_t> result;
    for (const auto& place : places) result.push_back(place.second);
    return result;
  }

 private:
  static constexpr double kShuffle = 0.025;

  // Not of the library's distributions, which differ from one library to another.
  double Uniform() { return static_cast<double>(generator_() >> 11) * 0x1p-53; }

  std::mt19937_64 generator_;
  std::vector<std::vector<std::int32_t>> orders_;
};

constexpr int kDoublings = 6;
constexpr double kForget = 0.95;

}  // namespace

// Finds offsets of buffers below `capacity`; returns 1 if it did, 0 if there are none, and -1 if a
// limit or `stopped` ended it. It looks at `*nodes` nodes at most, and subtracts them.
extern "C" __attribute__((visibility("default"))) std::int32_t tvm_ios_place_buffers(
    std::int32_t count, const std::int64_t* sizes, const std::int64_t* lived,
    const std::int32_t* near_begins, const std::int32_t* near, std::int32_t cliques,
    const std::int32_t* clique_begins, const std::int32_t* clique_members,
    const std::int32_t* cliques_of_begins, const std::int32_t* cliques_of, std::int64_t capacity,
    double seconds, const volatile std::int32_t* stopped, std::int64_t* nodes,
    std::int64_t* offsets) {
  const Problem problem{count,   sizes,
                        {near_begins, near}, {cliques_of_begins, cliques_of},
                        cliques, {clique_begins, clique_members},
                        capacity};
  const auto until = Clock::now() + std::chrono::duration_cast<Clock::duration>(
                                        std::chrono::duration<double>(seconds));
  Orders orders(problem, lived);
  std::vector<double> blame(count, 0);
  for (int round = 0;; ++round) {
    const std::int64_t limit = static_cast<std::int64_t>(count) << std::min(round + 1, kDoublings);
    for (std::size_t number = 0; number < orders.count(); ++number) {
      const std::int64_t given = std::min(limit, *nodes);
      std::int64_t left = given;
      Search search(problem, *stopped, until, &blame);
      const Outcome outcome = search.Run(
          round < 3 ? orders.plain(number) : orders.shuffled(number, blame), &left);
      *nodes -= given - left;
      if (outcome == Outcome::kFound) {
        std::copy(search.offsets().begin(), search.offsets().end(), offsets);
        return 1;
      }
      if (outcome == Outcome::kNone) return 0;
      if (*nodes <= 0 || *stopped || Clock::now() > until) return -1;
      for (double& each : blame) each *= kForget;
    }
  }
}
