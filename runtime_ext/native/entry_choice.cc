#include "entry_choice.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <tuple>

#include "affinity.h"
#include "cpu_features.h"
#include "cpu_quota.h"
#include "cuda_driver.h"

namespace tvm_ios {

namespace {

using Extents = std::vector<std::int64_t>;

constexpr double kUnknown = std::numeric_limits<double>::infinity();

std::string Text(const Extents& shape) {
  std::string text;
  for (const std::int64_t extent : shape) text += (text.empty() ? "" : "x") + std::to_string(extent);
  return text.empty() ? "a scalar" : text;
}

std::string Text(const TensorType& tensor) {
  std::string text;
  auto open = tensor.open.begin();
  for (std::size_t axis = 0; axis < tensor.type.shape.size(); ++axis) {
    text += axis == 0 ? "" : "x";
    if (open == tensor.open.end() || open->axis != axis) {
      text += std::to_string(tensor.type.shape[axis]);
      continue;
    }
    text += std::to_string(open->least) + ".." + std::to_string(open->most);
    if (open->step > 1) text += ":" + std::to_string(open->step);
    ++open;
  }
  return tensor.name + ":" + text;
}

std::string Joined(const std::vector<std::string>& texts, const char* between) {
  std::string joined;
  for (std::size_t i = 0; i < texts.size(); ++i) joined += (i == 0 ? "" : between) + texts[i];
  return joined;
}

// Adds a text that is not yet there.
void AddOnce(std::vector<std::string>* texts, const std::string& text) {
  if (std::find(texts->begin(), texts->end(), text) == texts->end()) texts->push_back(text);
}

const Extents* Find(const Shapes& shapes, const std::string& name) {
  for (const auto& [input, shape] : shapes) {
    if (input == name) return &shape;
  }
  return nullptr;
}

std::string IsGivenAs(const TensorType& input, const Extents& given) {
  return Text(input) + " is given as " + Text(given);
}

// Whether an input may have a shape, whatever the others have. Without a range that is its own.
bool Takes(const TensorType& input, const Extents& given) {
  const Extents& own = input.type.shape;
  if (given.size() != own.size()) return false;
  auto open = input.open.begin();
  for (std::size_t axis = 0; axis < own.size(); ++axis) {
    const bool is_open = open != input.open.end() && open->axis == axis;
    if (is_open ? !open->Has(given[axis]) : given[axis] != own[axis]) return false;
    if (is_open) ++open;
  }
  return true;
}

// Why a program for a range of shapes does not serve these, which all its inputs have; empty if it
// does.
std::string RangeMisfit(const Entry& entry, const Shapes& shapes) {
  // By symbol the steps, and the input that they are known by.
  std::map<std::string, std::pair<std::int64_t, const TensorType*>> known;
  for (const TensorType& input : entry.inputs) {
    const Extents& given = *Find(shapes, input.name);
    if (!Takes(input, given)) return IsGivenAs(input, given);
    for (const OpenAxis& axis : input.open) {
      const std::int64_t steps = (given[axis.axis] - axis.least) / axis.step;
      const auto& [other, by] =
          known.emplace(axis.symbol, std::make_pair(steps, &input)).first->second;
      if (other != steps) {
        return IsGivenAs(input, given) + " beside " + by->name + ":" +
               Text(*Find(shapes, by->name));
      }
    }
  }
  return "";
}

// Why an entry does not serve these shapes; empty if it does.
std::string ShapeMisfit(const Entry& entry, const Shapes& shapes) {
  for (const auto& [name, shape] : shapes) {
    std::vector<std::string> names;
    for (const TensorType& input : entry.inputs) names.push_back(input.name);
    if (std::find(names.begin(), names.end(), name) == names.end()) {
      return "there is no input '" + name + "'; there are: " + Joined(names, ", ");
    }
  }
  for (const TensorType& input : entry.inputs) {
    if (Find(shapes, input.name) == nullptr) return "input '" + input.name + "' is not given";
  }
  if (entry.IsOfRange()) return RangeMisfit(entry, shapes);
  const TensorType* other = nullptr;
  for (const TensorType& input : entry.inputs) {
    const Extents* const given = Find(shapes, input.name);
    const Extents& own = input.type.shape;
    if (given->size() != own.size() ||
        !std::equal(own.begin() + !own.empty(), own.end(), given->begin() + !own.empty())) {
      return IsGivenAs(input, *given);
    }
    if (*given != own && other == nullptr) other = &input;
  }
  if (other == nullptr) return "";
  // With a batch all inputs have a leading extent.
  const Extents& given = *Find(shapes, other->name);
  const bool alike =
      entry.batch && std::all_of(shapes.begin(), shapes.end(), [&](const auto& shape) {
        return shape.second[0] == given[0];
      });
  if (!alike || given[0] == 0) return IsGivenAs(*other, given);
  const std::string rows = std::to_string(given[0]) + " rows are ";
  if (given[0] > *entry.batch) return rows + "more than " + std::to_string(*entry.batch);
  if (!entry.padding) {
    return rows + "not " + std::to_string(*entry.batch) +
           ", and rows are not known to be independent";
  }
  return "";
}

// Higher for what is taken first: GPUs, then levels of x86-64, or of Arm by their extensions.
std::int64_t Level(const std::string& arch) {
  if (arch.rfind("armv8-a", 0) == 0) return std::count(arch.begin(), arch.end(), '+');
  const auto is_digit = [](char c) { return '0' <= c && c <= '9'; };
  std::string stem = arch;
  while (!stem.empty() && (stem.back() == 'a' || stem.back() == 'f')) stem.pop_back();
  std::size_t first = stem.size();
  while (first > 0 && is_digit(stem[first - 1])) --first;
  const std::string digits = stem.substr(first);
  if (digits.empty()) return 0;
  const std::int64_t number = digits.size() > 9 ? 1'000'000'000 : std::stoll(digits);
  if (arch.rfind("sm_", 0) == 0) return 1000 + number;
  return arch.rfind("x86-64-v", 0) == 0 ? number : 0;
}

// How many shapes an entry serves, but for fewer rows.
double Volume(const Entry& entry) {
  std::map<std::string, std::int64_t> steps;
  for (const TensorType& input : entry.inputs) {
    for (const OpenAxis& axis : input.open) steps.emplace(axis.symbol, axis.Steps());
  }
  double volume = 1;
  for (const auto& [symbol, count] : steps) volume *= static_cast<double>(count) + 1;
  return volume;
}

// In which way an entry serves shapes that fit; less for what is taken first.
enum class Way { kExact, kRange, kPadded };

Way WayOf(const Entry& entry, const Shapes& shapes) {
  if (entry.IsOfRange()) return Way::kRange;
  const bool whole =
      std::all_of(entry.inputs.begin(), entry.inputs.end(), [&](const TensorType& input) {
        return *Find(shapes, input.name) == input.type.shape;
      });
  return whole ? Way::kExact : Way::kPadded;
}

// Less for what is taken first for shapes that fit, whatever its lanes and its latency.
auto Class(const Entry& entry, const Shapes& shapes) {
  const double batch = entry.batch ? static_cast<double>(*entry.batch) : kUnknown;
  return std::make_tuple(WayOf(entry, shapes), entry.IsOfRange() ? Volume(entry) : batch,
                         -Level(entry.arch));
}

// More lanes are not always faster, but only one machine's latencies can tell.
auto Preference(const Entry& entry, bool same_machine) {
  const double lanes = -static_cast<double>(entry.lanes);
  const double latency = entry.latency_ms.value_or(kUnknown);
  return std::make_tuple(same_machine ? latency : lanes, same_machine ? lanes : latency, entry.id);
}

// The shapes of an entry's inputs; of a range in the geometric middle of each symbol, as
// tvm_ios/deployment/entry.py has them.
Shapes ShapesOf(const Entry& entry) {
  Shapes shapes;
  std::map<std::string, std::int64_t> steps;
  for (const TensorType& input : entry.inputs) {
    shapes.emplace_back(input.name, input.type.shape);
    for (const OpenAxis& axis : input.open) {
      const double middle = std::min(std::sqrt(static_cast<double>(axis.least)) *
                                         std::sqrt(static_cast<double>(axis.most)),
                                     0x1p62);
      const auto from = static_cast<std::int64_t>(middle) - axis.least;
      const std::int64_t taken = std::clamp(from / axis.step, std::int64_t{0}, axis.Steps());
      shapes.back().second[axis.axis] =
          axis.least + steps.emplace(axis.symbol, taken).first->second * axis.step;
    }
  }
  return shapes;
}

// Why a machine cannot take an entry for these shapes; empty if it can.
std::string AnyMisfit(const Entry& entry, const Machine& machine, const Shapes& shapes) {
  const std::string misfit = MachineMisfit(entry, machine);
  return misfit.empty() ? ShapeMisfit(entry, shapes) : misfit;
}

// Why another entry is taken before one that fits, too.
std::string WhyBefore(const Entry& taken, const Entry& entry, const Shapes& shapes) {
  const Way way = WayOf(taken, shapes);
  if (way != WayOf(entry, shapes) && entry.IsOfRange()) return "is for this shape alone";
  if (way != WayOf(entry, shapes) && taken.IsOfRange()) return "needs no more rows";
  if (way == Way::kRange && Volume(taken) != Volume(entry)) return "is for a smaller range";
  const bool faster = taken.latency_ms.value_or(kUnknown) < entry.latency_ms.value_or(kUnknown);
  if (entry.batch != taken.batch) return "has a smaller batch";
  if (Level(entry.arch) != Level(taken.arch)) return "is for a higher level";
  if (faster && entry.machine == taken.machine) return "was faster on the same machine";
  if (entry.lanes != taken.lanes) return "has more lanes";
  return faster ? "is faster" : "comes first";
}

// The shapes that entries serve, in words, each once.
std::vector<std::string> ServedShapes(std::vector<const Entry*> entries) {
  const auto shapes_of = [](const Entry& entry) {
    std::vector<Extents> shapes;
    for (const TensorType& input : entry.inputs) shapes.push_back(input.type.shape);
    return shapes;
  };
  std::stable_sort(entries.begin(), entries.end(), [&](const Entry* one, const Entry* other) {
    return shapes_of(*one) < shapes_of(*other);
  });
  std::vector<std::string> served;
  for (const Entry* entry : entries) {
    std::vector<std::string> inputs;
    for (const TensorType& input : entry->inputs) inputs.push_back(Text(input));
    AddOnce(&served, Joined(inputs, ", ") +
                         (entry->padding && entry->batch != 1 ? " or fewer rows" : ""));
  }
  return served;
}

[[noreturn]] void RefuseShapes(const std::vector<Entry>& entries, const Machine& machine,
                               const Shapes& shapes) {
  if (entries.empty()) {
    RefuseDeployment("the deployment has no entries; add one with `tvm-ios optimize -o`");
  }
  std::vector<std::string> asked;
  for (const auto& [name, shape] : shapes) asked.push_back(name + ":" + Text(shape));
  std::vector<const Entry*> all, here, alike;
  for (const Entry& entry : entries) {
    all.push_back(&entry);
    if (MachineMisfit(entry, machine).empty()) here.push_back(&entry);
    if (ShapeMisfit(entry, shapes).empty()) alike.push_back(&entry);
  }
  if (!here.empty() && alike.empty()) {
    RefuseDeployment("no program takes " + Joined(asked, ", ") + "; there are those for " +
                     Joined(ServedShapes(here), "; "));
  }
  std::vector<std::string> kinds, reasons;
  for (const Entry* entry : alike.empty() ? all : alike) {
    AddOnce(&kinds, entry->arch + " with " + std::to_string(entry->lanes) + " lanes");
    reasons.push_back(MachineMisfit(*entry, machine));
  }
  RefuseDeployment("no program for " + Joined(asked, ", ") +
                   " runs on this machine: there are those for " + Joined(kinds, "; ") + ", and " +
                   reasons[0]);
}

}  // namespace

Machine ThisMachine(const std::vector<Entry>& entries, std::int64_t lanes) {
  Machine machine{{}, lanes, {}, std::nullopt};
  if (lanes > 0) {
    machine.streams = lanes;
  } else {
    const double cpus =
        std::min(static_cast<double>(AllowedCpus().size()), CpuQuota());
    machine.lanes = std::max<std::int64_t>(1, static_cast<std::int64_t>(cpus));
  }
  for (const Entry& entry : entries) {
    machine.features.insert(entry.features.begin(), entry.features.end());
    if (entry.OnGpu()) machine.gpu_archs.insert(entry.arch);
  }
  for (const std::string& missing :
       MissingFeatures({machine.features.begin(), machine.features.end()})) {
    machine.features.erase(missing);
  }
  if (machine.gpu_archs.empty()) return machine;
  std::set<std::string> archs;
  try {
    const cuda::Gpu& gpu = cuda::OpenGpu();
    for (const std::string& arch : machine.gpu_archs) {
      if (cuda::RunsOn(arch, gpu.major, gpu.minor)) archs.insert(arch);
    }
  } catch (const ffi::Error&) {
    // There is no GPU, or no driver.
  }
  machine.gpu_archs = archs;
  return machine;
}

std::string MachineMisfit(const Entry& entry, const Machine& machine) {
  if (entry.OnGpu()) {
    if (machine.gpu_archs.count(entry.arch) == 0) return "there is no GPU that runs " + entry.arch;
    if (machine.streams && entry.lanes > *machine.streams) {
      return "it has " + std::to_string(entry.lanes) + " streams, and " +
             std::to_string(*machine.streams) + " may be used";
    }
    return "";
  }
  std::set<std::string> missing;
  for (const std::string& feature : entry.features) {
    if (machine.features.count(feature) == 0) missing.insert(feature);
  }
  if (!missing.empty()) {
    return "the CPU lacks " + Joined({missing.begin(), missing.end()}, ", ");
  }
  if (entry.lanes > machine.lanes) {
    return "it has " + std::to_string(entry.lanes) + " lanes, and " +
           std::to_string(machine.lanes) + " may be used";
  }
  return "";
}

std::size_t ChooseEntry(const std::vector<Entry>& entries, const Machine& machine,
                        const Shapes& shapes) {
  // The numbers of those that fit, of the first class only.
  std::vector<std::size_t> rivals;
  for (std::size_t i = 0; i < entries.size(); ++i) {
    if (!AnyMisfit(entries[i], machine, shapes).empty()) continue;
    if (!rivals.empty() && Class(entries[i], shapes) < Class(entries[rivals[0]], shapes)) rivals.clear();
    if (rivals.empty() || Class(entries[i], shapes) == Class(entries[rivals[0]], shapes)) rivals.push_back(i);
  }
  if (rivals.empty()) RefuseShapes(entries, machine, shapes);
  const std::optional<std::string>& measured_on = entries[rivals[0]].machine;
  const bool same_machine =
      measured_on && std::all_of(rivals.begin(), rivals.end(), [&](std::size_t i) {
        return entries[i].machine == measured_on;
      });
  return *std::min_element(rivals.begin(), rivals.end(), [&](std::size_t one, std::size_t other) {
    return Preference(entries[one], same_machine) < Preference(entries[other], same_machine);
  });
}

std::size_t ChooseSmallest(const std::vector<Entry>& entries, const Machine& machine) {
  // Without an entry that runs here, the refusal is that of any shapes.
  const auto order = [&](const Entry& entry) {
    return std::make_tuple(!MachineMisfit(entry, machine).empty(), entry.IsOfRange(),
                           entry.batch.value_or(0));
  };
  const auto smallest = std::min_element(
      entries.begin(), entries.end(),
      [&](const Entry& one, const Entry& other) { return order(one) < order(other); });
  return ChooseEntry(entries, machine, entries.empty() ? Shapes() : ShapesOf(*smallest));
}

std::vector<Verdict> JudgeEntries(const std::vector<Entry>& entries, const Machine& machine,
                                  const std::optional<Shapes>& shapes) {
  std::vector<Verdict> verdicts;
  for (const Entry& entry : entries) {
    const Shapes asked = shapes ? *shapes : ShapesOf(entry);
    const std::string misfit = AnyMisfit(entry, machine, asked);
    if (!misfit.empty()) {
      verdicts.push_back({false, false, misfit});
      continue;
    }
    const Entry& taken = entries[ChooseEntry(entries, machine, asked)];
    if (&taken != &entry) {
      verdicts.push_back({true, false, "fits, but " + taken.id + " " +
                                          WhyBefore(taken, entry, asked)});
      continue;
    }
    verdicts.push_back({true, true,
                        WayOf(entry, asked) != Way::kPadded
                            ? "taken"
                            : "taken, " + std::to_string(asked[0].second[0]) +
                                  " rows padded to " + std::to_string(*entry.batch)});
  }
  return verdicts;
}

}  // namespace tvm_ios
