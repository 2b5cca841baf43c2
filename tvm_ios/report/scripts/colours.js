/* Hues of units; lightness and strength belong to the theme, in page.css. */
const HUES = [250, 150, 55, 320, 100, 200, 20, 285];
const FAMILIES = {
  "convolution": [250, 1], "matrix product": [60, 1], "pooling": [165, 1], "normalisation": [330, 1],
  "element by element": [105, 1], "data movement": [250, 0.12], "other": [25, 1],
};

/* Each element is painted as the unit that is given for it. */
function paint(selection, colouring, unit) {
  selection.each(function (d) {
    const [hue, group, strength] = hueOf(unit(d), colouring);
    this.style.cssText = `--h:${hue};--g:${group};--k:${strength}`;
  });
}

function hueOf(unit, colouring) {
  if (colouring === "family") { const [hue, strength] = FAMILIES[unit.family]; return [hue, 0, strength]; }
  if (colouring === "block") return [HUES[unit.block % HUES.length], 0, 1];
  if (colouring === "instance") return unit.subgraph == null ? [250, 0, 0.1] : [HUES[unit.subgraph % HUES.length], unit.part % 4, 1];
  return unit.stage == null ? [250, 0, 0.1] : [HUES[unit.stage % HUES.length], unit.group % 4, 1];
}

/* Patterns over units that are merged or co-scheduled; identifiers are unique in the page. */
function hatches(svg) {
  const id = `h${hatches.count = (hatches.count ?? 0) + 1}`, defs = svg.append("defs");
  const lines = defs.append("pattern").attr("id", `${id}-merge`).attr("width", 7).attr("height", 7)
    .attr("patternUnits", "userSpaceOnUse").attr("patternTransform", "rotate(45)");
  lines.append("line").attr("class", "hatch-lines").attr("y2", 7);
  const dots = defs.append("pattern").attr("id", `${id}-co_schedule`).attr("width", 7).attr("height", 7).attr("patternUnits", "userSpaceOnUse");
  dots.append("circle").attr("class", "hatch-dots").attr("cx", 2).attr("cy", 2).attr("r", 1.2);
  const heads = { arrowhead: 8, "wait-head": 6 };
  for (const [name, size] of Object.entries(heads)) {
    defs.append("marker").attr("id", `${id}-${name}`).attr("viewBox", "0 0 6 6").attr("refX", 6).attr("refY", 3)
      .attr("markerUnits", "userSpaceOnUse").attr("markerWidth", size).attr("markerHeight", size).attr("orient", "auto")
      .append("path").attr("d", "M0,0L6,3L0,6z").attr("class", name);
  }
  return {
    url: (name) => `url(#${id}-${name})`,
    of: (unit) => (unit.strategy === "merge" || unit.strategy === "co_schedule" ? `url(#${id}-${unit.strategy})` : "none"),
  };
}

function legend(parent, executable, state) {
  const box = parent.append("div").attr("class", "legend");
  const draw = () => {
    box.selectAll("*").remove();
    const entry = (hue, group, strength, text) => {
      const item = box.append("span");
      item.append("span").attr("class", "swatch").attr("style", `--h:${hue};--g:${group};--k:${strength}`);
      item.append("span").text(text);
    };
    if (state.colouring === "family") {
      const there = new Set(executable.units.map((unit) => unit.family));
      for (const [name, [hue, strength]] of Object.entries(FAMILIES)) if (there.has(name)) entry(hue, 0, strength, name);
    } else if (state.colouring === "instance") {
      for (const subgraph of d3.union(executable.units.map((unit) => unit.subgraph))) {
        if (subgraph == null) entry(250, 0, 0.1, "joins instances");
        else entry(HUES[subgraph % HUES.length], 0, 1, `sub-graph ${subgraph}`);
      }
      box.append("span").text("instances of a sub-graph have four shades in turn");
    } else if (state.colouring === "block") {
      box.append("span").text("each block has a hue; hues repeat after eight");
    } else {
      const most = Math.min(4, 1 + d3.max(executable.units, (unit) => unit.group));
      for (let group = 0; group < most; group++) entry(HUES[0], group, 1, most > 1 ? `group ${group}` : "one group a stage");
      box.append("span").text("each stage has a hue; hues repeat after eight");
    }
    const names = { merge: "hatched: merged", co_schedule: "dotted: co-scheduled" };
    for (const strategy of new Set(executable.units.map((unit) => unit.strategy))) {
      if (names[strategy]) box.append("span").text(names[strategy]);
    }
  };
  state.when("colouring", draw);
  draw();
}
