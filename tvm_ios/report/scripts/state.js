/* What is hovered, chosen and visible; views draw it anew when they are told that it changed. */
class State extends EventTarget {
  constructor(executables) {
    super();
    this.executables = executables;
    this.hovered = null;
    this.chosen = null;
    this.block = null;
    this.matches = new Set();
    // Of instances, stages say nothing: a lane runs whole instances.
    this.colouring = executables.some((e) => e.units.some((unit) => unit.subgraph != null)) ? "instance" : "stage";
    this.longest = d3.max(executables, (e) => d3.max(e.runs, (run) => run.ms)) || 1;
    this.domain = [0, this.longest];
  }
  tell(what) { this.dispatchEvent(new Event(what)); }
  when(what, act) { for (const name of what.split(" ")) this.addEventListener(name, act); }
  /* The unit of another executable that has the same name, if there is one. */
  unitIn(executable, name) { return name == null ? -1 : executable.numberOf.get(name) ?? -1; }
  hover(name) { if (this.hovered !== name) { this.hovered = name; this.tell("hover"); } }
  choose(name, origin) {
    this.chosen = name;
    this.origin = origin ?? null;
    this.block = null;
    this.tell("choose");
    if (name != null) say(`selected ${name}`);
  }
  chooseBlock(executable, number) {
    const same = this.block && this.block.executable === executable && this.block.number === number;
    this.block = same ? null : { executable, number };
    this.chosen = null;
    if (!same) {
      const inside = executable.run.spans.filter((s) => executable.units[s[0]].block === number);
      if (inside.length) this.show(d3.min(inside, (s) => s[3]), d3.max(inside, (s) => s[4]));
      say(`block ${number}`);
    }
    this.tell("choose");
  }
  show(from, until) {
    const room = 0.06 * (until - from);
    this.domain = [Math.max(0, from - room), Math.min(this.longest, until + room)];
    this.tell("domain");
  }
  zoom(at, factor) {
    const [from, until] = this.domain;
    const width = Math.min(this.longest, Math.max(this.longest / 5000, (until - from) * factor));
    this.moveTo(at - ((at - from) * width) / (until - from), width);
  }
  move(by) { this.moveTo(this.domain[0] + by, this.domain[1] - this.domain[0]); }
  moveTo(from, width) {
    from = Math.max(0, Math.min(this.longest - width, from));
    this.domain = [from, from + width];
    this.tell("domain");
  }
}

function say(text) { document.getElementById("said").textContent = text; }

/* Numbers of units by name, and neighbours, which data do not repeat. */
function prepared(executable) {
  executable.numberOf = new Map(executable.units.map((unit, number) => [unit.name, number]));
  // The run of the schedule; what a run has inside of its kernels has parts.
  executable.run = executable.runs.findLast((run) => !run.parts);
  executable.before = executable.units.map(() => []);
  executable.after = executable.units.map(() => []);
  for (const [from, to] of executable.edges) { executable.after[from].push(to); executable.before[to].push(from); }
  return executable;
}

const tip = {
  show(event, executable, number, more = []) {
    const unit = executable.units[number], box = d3.select("#tip").attr("hidden", null);
    box.selectAll("*").remove();
    box.append("b").text(unit.name);
    const lines = [unit.kind, ...more, unit.subgraph == null ? "" : `sub-graph ${unit.subgraph}, instance ${unit.part}`, unit.stage == null ? "" : `stage ${unit.stage}, group ${unit.group}, ${unit.strategy.replace("_", "-")}`];
    for (const line of lines.filter(Boolean)) box.append("div").text(line);
    const at = box.node().getBoundingClientRect();
    const x = Math.min(event.clientX + 14, innerWidth - at.width - 8);
    const y = event.clientY + 18 + at.height > innerHeight ? event.clientY - at.height - 10 : event.clientY + 18;
    box.style("left", `${x}px`).style("top", `${y}px`);
  },
  hide() { d3.select("#tip").attr("hidden", ""); },
};
