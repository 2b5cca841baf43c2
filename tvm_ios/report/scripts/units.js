/* The table of units; its rows are what the graph and the timeline show, for those who cannot see them too. */
function drawUnits(parent, executable, state) {
  const timed = executable.units.some((unit) => unit.gflops != null);
  const { section } = card(parent, executable, "units", "Units", "times in which at least one lane worked on a unit; of peak: of the lanes that it had");
  const columns = [
    ["unit", (u) => u.name, (u) => u.name], ["operator", (u) => u.kind, (u) => u.kind],
    ["stage", (u) => u.stage, (u) => u.stage ?? "–"], ["group", (u) => u.group, (u) => u.group], ["block", (u) => u.block, (u) => u.block],
    ["ms", (u) => u.ms, (u) => u.ms?.toFixed(3) ?? "–"],
    ...(timed ? [
      ["GFLOP/s", (u) => u.gflops, (u) => (u.gflops == null ? "–" : u.gflops.toFixed(0))],
      ["of peak", (u) => u.of_peak, (u) => (u.gflops ? format.percent(u.of_peak) : "–")],
    ] : []),
    ["bytes", (u) => u.bytes, (u) => format.bytes(u.bytes)],
    ...(executable.units.some((u) => kernelOf(u) !== "–") ? [["kernel", kernelOf, kernelOf]] : []),
    ...(executable.units.some((u) => u.tuned) ? [["log entry", (u) => u.tuned?.join(), (u) => u.tuned?.join(", ") ?? "–"]] : []),
  ];
  const table = section.append("div").attr("class", "scroll").append("table").attr("id", executable.first ? "units" : null);
  const heads = table.append("thead").append("tr").selectAll("th").data(columns).join("th").attr("scope", "col").classed("left", (c) => ["operator", "kernel", "log entry"].includes(c[0]));
  heads.append("button").attr("type", "button").text((column) => column[0]).on("click", (_, column) => sort(column));
  const rows = table.append("tbody").selectAll("tr").data(d3.range(executable.units.length)).join("tr")
    .attr("data-unit", (n) => executable.units[n].name)
    .on("click", (_, n) => state.choose(executable.units[n].name, "table"))
    .on("pointerenter", (_, n) => state.hover(executable.units[n].name)).on("pointerleave", () => state.hover(null));
  columns.forEach(([name, , shown], place) => {
    const cells = rows.append("td").classed("left", ["operator", "kernel", "log entry"].includes(name)).attr("title", (n) => (name === "operator" ? executable.units[n].kind : null));
    if (place) cells.text((n) => shown(executable.units[n]));
    else cells.append("button").attr("class", "link").text((n) => shown(executable.units[n]));
  });
  let sorted = null, falling = true;
  function sort(column) {
    falling = sorted === column ? !falling : typeof column[1](executable.units[0]) !== "string";
    sorted = column;
    const order = falling ? d3.descending : d3.ascending;
    rows.sort((a, b) => order(column[1](executable.units[a]) ?? -1, column[1](executable.units[b]) ?? -1) || a - b);
    heads.attr("aria-sort", (c) => (c === column ? (falling ? "descending" : "ascending") : null));
  }
  state.when("choose hover", () => {
    const chosen = state.unitIn(executable, state.chosen), hovered = state.unitIn(executable, state.hovered);
    rows.classed("chosen", (n) => n === chosen).classed("hover", (n) => n === hovered).attr("aria-selected", (n) => n === chosen);
  });
  state.when("choose", () => {
    const chosen = state.unitIn(executable, state.chosen);
    if (chosen < 0 || state.origin === "table") return;
    const row = rows.filter((n) => n === chosen).node(), box = row.closest(".scroll");
    box.scrollTop = row.offsetTop - box.clientHeight / 3;
  });
}

function kernelOf(unit) {
  return [unit.rkernel, unit.library, [...new Set(unit.forms ?? [])].join(" + ")].filter(Boolean).join(", ") || "–";
}
