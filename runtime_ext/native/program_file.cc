#include "program_file.h"

#include <set>

namespace tvm_ios {

namespace {

struct KernelUse {
  std::int64_t tiles;
  std::size_t arguments;
  std::vector<std::int64_t> writes;
};

void RequireFormat(const JsonObject& file, const std::string& format, std::int64_t version) {
  if (Text(Field(file, "format")) != format || Natural(Field(file, "version")) != version) {
    throw Misfit("this is not a " + format + " of version " + std::to_string(version));
  }
}

JsonArray ListOf(const ffi::Any& value, std::size_t least) {
  JsonArray list = List(value);
  if (list.size() < least) throw Misfit("a list of " + std::to_string(list.size()) + " values");
  return list;
}

std::vector<Buffer> ReadBuffers(const ffi::Any& value) {
  static const std::set<std::string> kRoles = {"input", "output", "constant", "intermediate",
                                               "scratch"};
  std::vector<Buffer> buffers;
  std::set<std::string> names;
  const JsonArray list = List(value);
  for (const ffi::Any& item : list) {
    const JsonArray fields = ListOf(item, 4);
    Buffer buffer{Text(fields[0]), {Naturals(fields[1]), Text(fields[2])}, Text(fields[3]),
                  buffers.size()};
    buffer.type.Bytes();  // Throws if it has none.
    if (!names.insert(buffer.name).second) throw Misfit("two buffers have one name");
    if (kRoles.count(buffer.role) == 0) throw Misfit("there is no role '" + buffer.role + "'");
    if (fields.size() > 4) {
      const std::vector<std::int64_t> part = Naturals(fields[4]);
      if (part.size() != 4 || static_cast<std::size_t>(part[0]) >= list.size()) {
        throw Misfit("buffer '" + buffer.name + "' is part of no whole buffer");
      }
      buffer.whole = static_cast<std::size_t>(part[0]);
    }
    buffers.push_back(std::move(buffer));
  }
  for (std::size_t i = 0; i < buffers.size(); ++i) {
    const Buffer& whole = buffers[buffers[i].whole];
    if (buffers[i].whole == i) continue;
    if (whole.whole != buffers[i].whole || !(whole.type == buffers[i].type) ||
        whole.role == "constant" || buffers[i].role == "constant") {
      throw Misfit("buffer '" + buffers[i].name + "' cannot be part of '" + whole.name + "'");
    }
  }
  return buffers;
}

std::vector<KernelUse> ReadUses(const ffi::Any& value) {
  std::vector<KernelUse> uses;
  for (const ffi::Any& item : List(value)) {
    const JsonArray fields = ListOf(item, 3);
    uses.push_back({Natural(fields[0]), static_cast<std::size_t>(Natural(fields[1])),
                    Naturals(fields[2])});
    for (std::int64_t place : uses.back().writes) {
      if (static_cast<std::size_t>(place) >= uses.back().arguments) {
        throw Misfit("a kernel writes an argument that it does not take");
      }
    }
  }
  return uses;
}

// A launch as the file has it.
struct LaunchFields {
  std::int64_t kernel, begin, end, unit;
  std::vector<std::int64_t> buffers;
};

LaunchFields ReadLaunch(const JsonArray& fields, const Program& program,
                        const std::vector<KernelUse>& uses, const std::string& lane) {
  const LaunchFields launch{Natural(fields[1]), Natural(fields[3]), Natural(fields[4]),
                            Natural(fields[5]), Naturals(fields[2])};
  const std::string tiles = std::to_string(launch.begin) + " to " + std::to_string(launch.end);
  if (static_cast<std::size_t>(launch.kernel) >= uses.size()) {
    throw Misfit(lane + " launches kernel " + std::to_string(launch.kernel) +
                 ", which does not exist");
  }
  const KernelUse& use = uses[launch.kernel];
  const std::string kernel = "kernel '" + program.kernels[launch.kernel] + "'";
  if (launch.begin > launch.end || launch.end > use.tiles) {
    throw Misfit(lane + " launches the tiles " + tiles + " of " + kernel + ", which has " +
                 std::to_string(use.tiles));
  }
  for (std::int64_t buffer : launch.buffers) {
    if (static_cast<std::size_t>(buffer) >= program.buffers.size()) {
      throw Misfit(lane + " uses a buffer that does not exist");
    }
  }
  if (launch.buffers.size() != use.arguments) {
    throw Misfit(lane + " gives " + std::to_string(launch.buffers.size()) + " buffers to " +
                 kernel + ", which takes " + std::to_string(use.arguments));
  }
  for (std::int64_t place : use.writes) {
    const Buffer& buffer = program.buffers[launch.buffers[place]];
    if (buffer.role == "input" || buffer.role == "constant") {
      throw Misfit(lane + " writes the " + buffer.role + " '" + buffer.name + "'");
    }
  }
  return launch;
}

}  // namespace

Program ReadProgram(const JsonObject& file) {
  RequireFormat(file, "tvm-ios program", 3);
  Program program{Texts(Field(file, "kernels")), Texts(Field(file, "units")),
                  ReadBuffers(Field(file, "buffers")), {}};
  const std::vector<KernelUse> uses = ReadUses(Field(file, "uses"));
  if (uses.size() != program.kernels.size()) {
    throw Misfit("the program does not say of every kernel how it may be launched");
  }
  for (const ffi::Any& lane : List(Field(file, "lanes"))) {
    const std::string name = "lane " + std::to_string(program.lanes.size());
    std::vector<std::int64_t>& code = program.lanes.emplace_back();
    for (const ffi::Any& step : List(lane)) {
      const JsonArray fields = ListOf(step, 3);
      if (Text(fields[0]) == "wait") {
        code.insert(code.end(), {0, Natural(fields[1]), Natural(fields[2])});
        continue;
      }
      const LaunchFields launch = ReadLaunch(ListOf(step, 6), program, uses, name);
      code.insert(code.end(), {1, launch.kernel, launch.begin, launch.end, launch.unit,
                               static_cast<std::int64_t>(launch.buffers.size())});
      code.insert(code.end(), launch.buffers.begin(), launch.buffers.end());
    }
  }
  if (program.lanes.empty()) throw Misfit("the program has no lane");
  return program;
}

std::vector<std::vector<Item>> DecodeLanes(const Program& program) {
  std::vector<std::vector<Item>> lanes;
  for (const std::vector<std::int64_t>& code : program.lanes) {
    std::vector<Item>& items = lanes.emplace_back();
    for (auto at = code.begin(); at != code.end();) {
      Item item;
      if (*at == 0) {
        item.lane = static_cast<std::size_t>(at[1]);
        item.launches = static_cast<std::size_t>(at[2]);
        at += 3;
      } else {
        item.kernel = at[1];
        item.begin = at[2];
        item.end = at[3];
        item.unit = static_cast<std::size_t>(at[4]);
        item.buffers.assign(at + 6, at + 6 + at[5]);
        at += 6 + at[5];
      }
      if (item.lane >= program.lanes.size() || item.unit >= program.units.size()) {
        throw Misfit("a lane waits for a lane, or launches for a unit, that does not exist");
      }
      items.push_back(std::move(item));
    }
  }
  return lanes;
}

MemoryPlan ReadMemoryPlan(const JsonObject& file, const Program& program) {
  RequireFormat(file, "tvm-ios memory plan", 1);
  MemoryPlan plan;
  plan.bytes = static_cast<std::size_t>(Natural(Field(file, "nbytes")));
  for (const ffi::Any& item : List(Field(file, "offsets"))) {
    const auto offset = item.as<std::int64_t>();
    plan.offsets.push_back(offset && *offset == -1 ? -1 : Natural(item));
  }
  if (plan.offsets.size() != program.buffers.size()) {
    throw Misfit("the memory plan and the program do not name the same buffers");
  }
  for (std::size_t i = 0; i < plan.offsets.size(); ++i) {
    const Buffer& buffer = program.buffers[i];
    if ((plan.offsets[i] >= 0) != buffer.planned(i)) {
      throw Misfit("the memory plan and the program do not name the same buffers");
    }
    const std::size_t bytes = buffer.type.Bytes();
    if (plan.offsets[i] >= 0 &&
        (plan.offsets[i] % kAlignment != 0 || bytes > plan.bytes ||
         static_cast<std::size_t>(plan.offsets[i]) > plan.bytes - bytes)) {
      throw Misfit("the memory plan puts buffer '" + buffer.name + "' at byte " +
                   std::to_string(plan.offsets[i]) + " of " + std::to_string(plan.bytes));
    }
  }
  return plan;
}

}  // namespace tvm_ios
