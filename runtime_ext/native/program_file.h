// A program as program.json has it, with the memory plan of memory.json.
#ifndef TVM_IOS_NATIVE_PROGRAM_FILE_H_
#define TVM_IOS_NATIVE_PROGRAM_FILE_H_

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "expressions.h"
#include "json_text.h"
#include "memory.h"

namespace tvm_ios {

struct Buffer {
  std::string name;
  // Of an open program extents may be references.
  BufferType type;
  // input, output, constant, intermediate or scratch.
  std::string role;
  // The buffer whose memory it lies in; itself if it is no part of another.
  std::size_t whole;

  bool planned(std::size_t number) const {
    return whole == number && (role == "intermediate" || role == "scratch");
  }
};

// As Plan takes them.
using Lanes = std::vector<std::vector<std::int64_t>>;

// Lanes that an open program has instead of its own in a box of its shapes: of each symbol the least
// and the most.
struct Alternative {
  std::vector<std::pair<std::int64_t, std::int64_t>> box;
  Lanes lanes;
};

struct Program {
  std::vector<std::string> kernels;
  std::vector<std::string> units;
  std::vector<Buffer> buffers;
  Lanes lanes;
  // By which numbers depend on the shape; without symbols the program has one shape.
  Expressions expressions = {};
  // Of each kernel: references.
  std::vector<std::int64_t> tiles = {};
  std::vector<Alternative> alternatives = {};

  // The program's own lanes are choice 0, those of its alternatives come after them.
  std::size_t choices() const { return 1 + alternatives.size(); }
  const Lanes& lanes_of(std::size_t choice) const {
    return choice == 0 ? lanes : alternatives[choice - 1].lanes;
  }
};

// An instruction of a lane: a wait, or with a kernel a launch.
struct Item {
  std::int64_t kernel = -1;
  std::size_t lane = 0;
  std::size_t launches = 0;
  std::vector<std::size_t> buffers = {};
  std::int64_t begin = 0;
  std::int64_t end = 0;
  std::size_t unit = 0;
  std::vector<std::int64_t> scalars = {};

  bool IsWait() const { return kernel < 0; }
};

// The lanes of a program that was read, as one of its choices. Throws a Misfit if they name a lane or
// unit that does not exist.
std::vector<std::vector<Item>> DecodeLanes(const Program& program, std::size_t choice = 0);

// A launch as Plan takes it, at the end of a lane.
void Encode(const Item& launch, std::vector<std::int64_t>* lane);

struct MemoryPlan {
  // Where planned buffers lie in one arena; -1 for the others.
  std::size_t bytes = 0;
  std::vector<std::int64_t> offsets;

  // Of an open program instead: the planned buffers in the order in which best-fit places them, for
  // each the places of those before it that it may share no byte with, and whether it takes the
  // lowest gap.
  std::vector<std::size_t> order = {};
  std::vector<std::vector<std::size_t>> conflicts = {};
  bool lowest = false;
};

// What a launch may do is checked against what the file says of its kernel. That no two launches
// race was proven when the file was written, by tvm_ios/program/happens_before.py. Throws a Misfit.
Program ReadProgram(const JsonObject& file);

// Throws a Misfit if a planned buffer has no bytes of the arena, or another one has. Of an open
// program the plan has no bytes, but what is needed to place buffers; that no conflict is missing was
// proven when the file was written, by tvm_ios/program/arena/open_plan.py.
MemoryPlan ReadMemoryPlan(const JsonObject& file, const Program& program);

}  // namespace tvm_ios

#endif  // TVM_IOS_NATIVE_PROGRAM_FILE_H_
