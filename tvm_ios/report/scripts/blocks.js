/* What bounds each block, and what would help. */
const BOUNDS = [["critical_path", "critical path"], ["work_over_lanes", "work over lanes"], ["arithmetic", "arithmetic"], ["memory", "memory"]];

function drawBlocks(parent, executable, state) {
  if (!executable.total) return;
  const { section } = card(parent, executable, "blocks", "What bounds each block", "bounds in ms, the largest in bold; shares of the lanes' time");
  const table = section.append("div").attr("class", "scroll").append("table");
  const columns = ["block", "units", "ms", ...BOUNDS.map(([, name]) => name), "seen / bound", "busy, waiting, launching", "what would help"];
  table.append("thead").append("tr").selectAll("th").data(columns).join("th").attr("scope", "col").classed("left", (name) => name.startsWith("what")).text((name) => name);
  const all = executable.blocks.map((block, number) => ({ ...block, number }));
  const rows = table.append("tbody").selectAll("tr").data([...all, { ...executable.total, number: null }]).join("tr")
    .on("click", (_, block) => { if (block.number != null) state.chooseBlock(executable, block.number); });
  rows.append("td").each(function (block) {
    if (block.number == null) return d3.select(this).text("all");
    return d3.select(this).append("button").attr("class", "link").text(block.number).attr("aria-label", `Show block ${block.number}`);
  });
  rows.append("td").text((block) => block.units.length);
  rows.append("td").text((block) => block.ms.toFixed(3));
  for (const [key] of BOUNDS) {
    rows.append("td").classed("strongest", (block) => block.bound === key).text((block) => block.bounds_ms[key]?.toFixed(3) ?? "–");
  }
  rows.append("td").text((block) => block.ratio.toFixed(2));
  rows.append("td").append("span").attr("class", "parts").attr("role", "img")
    .attr("aria-label", (b) => `busy ${format.percent(b.busy)}, waiting ${format.percent(b.waiting)}, launching ${format.percent(b.launching)}`)
    .attr("title", (b) => `busy ${format.percent(b.busy)}, waiting ${format.percent(b.waiting)}, launching ${format.percent(b.launching)}`)
    .selectAll("i").data((b) => [["busy", b.busy], ["waiting", b.waiting], ["launching", b.launching]]).join("i")
    .attr("class", ([name]) => `${name}-part`).style("width", ([, share]) => `${Math.min(1, share) * 100}%`);
  rows.append("td").attr("class", "wide").append("span").attr("class", "two-lines").attr("title", (block) => block.advice).text((block) => block.advice);
  const said = section.append("p").attr("class", "note").attr("hidden", "");
  const key = section.append("div").attr("class", "legend");
  for (const name of ["busy", "waiting", "launching"]) {
    const item = key.append("span");
    item.append("span").attr("class", "parts").style("width", "12px").append("i").attr("class", `${name}-part`).style("width", "100%");
    item.append("span").text(` ${name}`);
  }
  state.when("choose", () => {
    const chosen = state.block?.executable === executable ? executable.blocks[state.block.number] : null;
    said.attr("hidden", chosen ? null : "").text(chosen ? `block ${state.block.number}: ${chosen.advice}` : "");
  });
  state.when("choose hover", () => {
    const hovered = executable.units[state.unitIn(executable, state.hovered)]?.block;
    rows.classed("chosen", (block) => state.block?.executable === executable && state.block.number === block.number)
      .classed("hover", (block) => block.number != null && block.number === hovered);
  });
}
