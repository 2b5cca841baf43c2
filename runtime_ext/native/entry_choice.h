// Which program of a deployment a machine takes for given shapes, and why not another.
#ifndef TVM_IOS_NATIVE_ENTRY_CHOICE_H_
#define TVM_IOS_NATIVE_ENTRY_CHOICE_H_

#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "deployment.h"

namespace tvm_ios {

// What a machine can run.
struct Machine {
  // CPU features that it has, in LLVM's names.
  std::set<std::string> features;
  // Threads that a program may use.
  std::int64_t lanes;
  // The architectures of entries whose code its GPU runs.
  std::set<std::string> gpu_archs;
  // Streams that a program for a GPU may use; any number without.
  std::optional<std::int64_t> streams;
};

// This machine, as far as entries ask for it; `lanes` of 0 are as many as there are CPUs for this
// process.
Machine ThisMachine(const std::vector<Entry>& entries, std::int64_t lanes);

// The shape of each input, by name.
using Shapes = std::vector<std::pair<std::string, std::vector<std::int64_t>>>;

// The number of the entry that a machine takes for these shapes of all inputs: of those that fit
// the ones of just these shapes, or else the ones of the range of the fewest shapes, or else, with
// more rows, of the smallest batch; of these the ones of the highest instruction-set level (a GPU
// before any CPU). If all of these were measured on one machine, the fastest; else the one of the
// most lanes, then the fastest. Throws an ffi::Error of kind DeploymentError that names what there
// is.
std::size_t ChooseEntry(const std::vector<Entry>& entries, const Machine& machine,
                        const Shapes& shapes);

// The number of the entry that a machine takes for the shapes of the one of the smallest batch that
// it can run; if it runs ranges alone, for the middle of one. Throws as ChooseEntry.
std::size_t ChooseSmallest(const std::vector<Entry>& entries, const Machine& machine);

// Why a machine cannot take an entry; empty if it can.
std::string MachineMisfit(const Entry& entry, const Machine& machine);

struct Verdict {
  // Whether the machine can run the entry, and whether it does.
  bool fits;
  bool taken;
  // "taken", how it is padded, or why it is not taken.
  std::string reason;
};

// What becomes of each entry if a machine is given these shapes; without shapes, if it is given
// those of that entry, or the middle of its range.
std::vector<Verdict> JudgeEntries(const std::vector<Entry>& entries, const Machine& machine,
                                  const std::optional<Shapes>& shapes);

}  // namespace tvm_ios

#endif  // TVM_IOS_NATIVE_ENTRY_CHOICE_H_
