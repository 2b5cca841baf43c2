#include "program_file.h"

#include <algorithm>
#include <set>

namespace tvm_ios {

namespace {

constexpr std::int64_t kVersion = 3;
// Of programs that are open, or whose kernels take scalars.
constexpr std::int64_t kOpenVersion = 4;

struct KernelUse {
  std::int64_t tiles;
  std::size_t arguments;
  std::vector<std::int64_t> writes;
  // References of an open program's symbols.
  std::vector<std::int64_t> scalars;
  std::size_t scalar_count;
};

void RequireFormat(const JsonObject& file, const std::string& format, std::int64_t version) {
  if (Text(Field(file, "format")) != format || Natural(Field(file, "version")) != version) {
    throw Misfit("this is not a " + format + " of version " + std::to_string(version));
  }
}

// How many bytes buffers have at most, with those before; whatever has more cannot be counted.
void CountBytes(const BufferType& type, const Expressions& expressions, std::int64_t* total) {
  __int128 bytes = type.Element().bits / 8;
  const auto require = [&bytes] {
    if (bytes >= __int128{1} << 60) {
      throw Misfit("the buffers of the largest shape have more bytes than can be counted");
    }
  };
  for (std::int64_t extent : type.shape) {
    bytes *= std::max<std::int64_t>(0, expressions.Bounds(extent).second);
    require();
  }
  // Rounded up, and with the slack.
  bytes += *total + static_cast<__int128>(kAlignment + kSlack);
  require();
  *total = static_cast<std::int64_t>(bytes);
}

JsonArray ListOf(const ffi::Any& value, std::size_t least) {
  JsonArray list = List(value);
  if (list.size() < least) throw Misfit("a list of " + std::to_string(list.size()) + " values");
  return list;
}

std::vector<Buffer> ReadBuffers(const ffi::Any& value, const Expressions& expressions) {
  static const std::set<std::string> kRoles = {"input", "output", "constant", "intermediate",
                                               "scratch"};
  std::vector<Buffer> buffers;
  std::set<std::string> names;
  std::int64_t total = 0;
  const JsonArray list = List(value);
  for (const ffi::Any& item : list) {
    const JsonArray fields = ListOf(item, 4);
    Buffer buffer{Text(fields[0]), {expressions.ReadAll(fields[1]), Text(fields[2])},
                  Text(fields[3]), buffers.size()};
    if (expressions.open()) {
      CountBytes(buffer.type, expressions, &total);
    } else {
      buffer.type.Bytes();  // Throws if it has none.
    }
    if (!names.insert(buffer.name).second) throw Misfit("two buffers have one name");
    if (kRoles.count(buffer.role) == 0) throw Misfit("there is no role '" + buffer.role + "'");
    const std::vector<std::int64_t>& shape = buffer.type.shape;
    if (buffer.role == "constant" && std::any_of(shape.begin(), shape.end(), IsOpen)) {
      throw Misfit("the shape of constant '" + buffer.name + "' is open");
    }
    if (fields.size() > 4) {
      const std::vector<std::int64_t> part = expressions.ReadAll(fields[4]);
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

std::vector<KernelUse> ReadUses(const ffi::Any& value, const Expressions& expressions) {
  std::vector<KernelUse> uses;
  for (const ffi::Any& item : List(value)) {
    const JsonArray fields = ListOf(item, 3);
    uses.push_back({expressions.Read(fields[0]), static_cast<std::size_t>(Natural(fields[1])),
                    Naturals(fields[2]), {}, 0});
    const std::vector<std::string> scalars =
        fields.size() > 3 ? Texts(fields[3]) : std::vector<std::string>();
    uses.back().scalar_count = scalars.size();
    for (const std::string& symbol : scalars) {
      if (expressions.open()) uses.back().scalars.push_back(expressions.Named(symbol));
    }
    for (std::int64_t place : uses.back().writes) {
      if (static_cast<std::size_t>(place) >= uses.back().arguments) {
        throw Misfit("a kernel writes an argument that it does not take");
      }
    }
  }
  return uses;
}

Item ReadLaunch(const JsonArray& fields, const Program& program,
                const std::vector<KernelUse>& uses, const std::string& lane) {
  Item launch;
  launch.kernel = Natural(fields[1]);
  for (std::int64_t buffer : Naturals(fields[2])) launch.buffers.push_back(buffer);
  launch.begin = program.expressions.Read(fields[3]);
  launch.end = program.expressions.Read(fields[4]);
  launch.unit = static_cast<std::size_t>(Natural(fields[5]));
  const std::string tiles = std::to_string(launch.begin) + " to " + std::to_string(launch.end);
  if (static_cast<std::size_t>(launch.kernel) >= uses.size()) {
    throw Misfit(lane + " launches kernel " + std::to_string(launch.kernel) +
                 ", which does not exist");
  }
  const KernelUse& use = uses[launch.kernel];
  const std::string kernel = "kernel '" + program.kernels[launch.kernel] + "'";
  const bool open = IsOpen(launch.begin) || IsOpen(launch.end) || IsOpen(use.tiles);
  // Open ones are checked for each shape.
  if (!open && (launch.begin > launch.end || launch.end > use.tiles)) {
    throw Misfit(lane + " launches the tiles " + tiles + " of " + kernel + ", which has " +
                 std::to_string(use.tiles));
  }
  for (std::size_t buffer : launch.buffers) {
    if (buffer >= program.buffers.size()) {
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
  launch.scalars = use.scalars;
  if (!program.expressions.open() && fields.size() > 6) launch.scalars = Naturals(fields[6]);
  if (launch.scalars.size() != use.scalar_count) {
    throw Misfit(lane + " gives " + std::to_string(launch.scalars.size()) + " scalars to " +
                 kernel + ", which takes " + std::to_string(use.scalar_count));
  }
  return launch;
}

Lanes ReadLanes(const ffi::Any& value, const Program& program, const std::vector<KernelUse>& uses) {
  Lanes lanes;
  for (const ffi::Any& lane : List(value)) {
    const std::string name = "lane " + std::to_string(lanes.size());
    std::vector<std::int64_t>& code = lanes.emplace_back();
    for (const ffi::Any& step : List(lane)) {
      const JsonArray fields = ListOf(step, 3);
      if (Text(fields[0]) == "wait") {
        code.insert(code.end(), {0, Natural(fields[1]), Natural(fields[2])});
        continue;
      }
      Encode(ReadLaunch(ListOf(step, 6), program, uses, name), &code);
    }
  }
  return lanes;
}

Alternative ReadAlternative(const JsonObject& file, const Program& program,
                            const std::vector<KernelUse>& uses) {
  Alternative alternative{{}, ReadLanes(Field(file, "lanes"), program, uses)};
  if (alternative.lanes.size() != program.lanes.size()) {
    throw Misfit("the lanes of the program are not as many for every shape");
  }
  const JsonObject box = Object(Field(file, "box"));
  for (const Symbol& symbol : program.expressions.symbols()) {
    const std::vector<std::int64_t> range = Naturals(Field(box, symbol.name));
    if (range.size() != 2) throw Misfit("a box of the program's shapes has no range");
    alternative.box.emplace_back(range[0], range[1]);
  }
  return alternative;
}

}  // namespace

Program ReadProgram(const JsonObject& file) {
  const std::int64_t version = Natural(Field(file, "version"));
  RequireFormat(file, "tvm-ios program", version == kOpenVersion ? kOpenVersion : kVersion);
  const Expressions expressions = version == kOpenVersion ? Expressions(file) : Expressions();
  Program program{Texts(Field(file, "kernels")), Texts(Field(file, "units")),
                  ReadBuffers(Field(file, "buffers"), expressions), {}, expressions};
  const std::vector<KernelUse> uses = ReadUses(Field(file, "uses"), expressions);
  for (const KernelUse& use : uses) program.tiles.push_back(use.tiles);
  if (uses.size() != program.kernels.size()) {
    throw Misfit("the program does not say of every kernel how it may be launched");
  }
  program.lanes = ReadLanes(Field(file, "lanes"), program, uses);
  if (program.lanes.empty()) throw Misfit("the program has no lane");
  if (file.count("alternatives") != 0) {
    for (const ffi::Any& alternative : List(Field(file, "alternatives"))) {
      program.alternatives.push_back(ReadAlternative(Object(alternative), program, uses));
    }
  }
  return program;
}

std::vector<std::vector<Item>> DecodeLanes(const Program& program, std::size_t choice) {
  std::vector<std::vector<Item>> lanes;
  for (const std::vector<std::int64_t>& code : program.lanes_of(choice)) {
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
        const bool scalars = *at == 2;
        at += 6 + at[5];
        if (scalars) {
          item.scalars.assign(at + 1, at + 1 + *at);
          at += 1 + *at;
        }
      }
      if (item.lane >= program.lanes.size() || item.unit >= program.units.size()) {
        throw Misfit("a lane waits for a lane, or launches for a unit, that does not exist");
      }
      items.push_back(std::move(item));
    }
  }
  return lanes;
}

void Encode(const Item& launch, std::vector<std::int64_t>* lane) {
  lane->insert(lane->end(), {launch.scalars.empty() ? 1 : 2, launch.kernel, launch.begin,
                             launch.end, static_cast<std::int64_t>(launch.unit),
                             static_cast<std::int64_t>(launch.buffers.size())});
  lane->insert(lane->end(), launch.buffers.begin(), launch.buffers.end());
  if (launch.scalars.empty()) return;
  lane->push_back(static_cast<std::int64_t>(launch.scalars.size()));
  lane->insert(lane->end(), launch.scalars.begin(), launch.scalars.end());
}

namespace {

MemoryPlan ReadOpenPlan(const JsonObject& file, const Program& program) {
  RequireFormat(file, "tvm-ios memory plan", 2);
  MemoryPlan plan;
  const auto lowest = Field(file, "lowest").as<bool>();
  if (!lowest) throw Misfit("something else where true or false should be");
  plan.lowest = *lowest;
  std::vector<bool> placed(program.buffers.size());
  for (std::int64_t number : Naturals(Field(file, "buffers"))) {
    const auto buffer = static_cast<std::size_t>(number);
    if (buffer >= placed.size() || placed[buffer] || !program.buffers[buffer].planned(buffer)) {
      throw Misfit("the memory plan and the program do not name the same buffers");
    }
    placed[buffer] = true;
    plan.order.push_back(buffer);
  }
  for (std::size_t i = 0; i < placed.size(); ++i) {
    if (placed[i] != program.buffers[i].planned(i)) {
      throw Misfit("the memory plan and the program do not name the same buffers");
    }
  }
  for (const ffi::Any& item : List(Field(file, "conflicts"))) {
    std::vector<std::size_t>& conflicts = plan.conflicts.emplace_back();
    for (std::int64_t other : Naturals(item)) {
      const auto place = static_cast<std::size_t>(other);
      if (place + 1 >= plan.conflicts.size() || (!conflicts.empty() && place <= conflicts.back())) {
        throw Misfit("the memory plan has a conflict with a buffer that comes later");
      }
      conflicts.push_back(place);
    }
  }
  if (plan.conflicts.size() != plan.order.size()) {
    throw Misfit("the memory plan does not say of every buffer what it conflicts with");
  }
  return plan;
}

}  // namespace

MemoryPlan ReadMemoryPlan(const JsonObject& file, const Program& program) {
  if (program.expressions.open()) return ReadOpenPlan(file, program);
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
