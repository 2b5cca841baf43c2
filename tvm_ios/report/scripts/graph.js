/* The graph of units: pan, zoom, hover, and what is known of the chosen unit. */
function drawGraph(parent, executable, state) {
  const { section, head } = card(parent, executable, "graph", "Operator graph", `${format.number(executable.units.length, "unit")}, ${format.number(executable.stages, "stage")}`);
  const stage = section.append("div").attr("class", "stage");
  const svg = stage.append("svg").attr("tabindex", 0).attr("role", "application")
    .attr("aria-label", "Graph of units. Plus and minus zoom, arrows move; the table of units has the same units.");
  const waiting = stage.append("div").attr("class", "busy").text("placing units …");
  const patterns = hatches(svg), canvas = svg.append("g");
  let where = null;
  const zoom = d3.zoom().scaleExtent([0.04, 4])
    .filter((event) => (event.type === "wheel" ? event.ctrlKey || event.metaKey : !event.button))
    .on("zoom", ({ transform }) => {
      canvas.attr("transform", transform);
      svg.classed("far", transform.k < 0.42);
    });
  svg.call(zoom).on("dblclick.zoom", null);
  svg.on("wheel.move", (event) => {
    if (event.ctrlKey || event.metaKey) return;
    event.preventDefault();
    const k = d3.zoomTransform(svg.node()).k;
    zoom.translateBy(svg, -event.deltaX / k, -event.deltaY / k);
  });
  svg.on("keydown", (event) => {
    const steps = { ArrowLeft: [80, 0], ArrowRight: [-80, 0], ArrowUp: [0, 80], ArrowDown: [0, -80] }, step = steps[event.key];
    if (step) { const k = d3.zoomTransform(svg.node()).k; zoom.translateBy(svg, step[0] / k, step[1] / k); event.preventDefault(); }
    else if (event.key === "+" || event.key === "=") zoom.scaleBy(svg, 1.4);
    else if (event.key === "-") zoom.scaleBy(svg, 1 / 1.4);
    else if (event.key === "0") fit();
  });
  svg.on("click", (event) => { if (event.target === svg.node()) state.choose(null); });
  tools(head, [
    ["+", "Zoom in", () => zoom.scaleBy(svg, 1.4)], ["−", "Zoom out", () => zoom.scaleBy(svg, 1 / 1.4)], ["⤢", "Show the whole graph", () => fit()],
  ]);
  legend(section, executable, state);
  inspector(stage, executable, state);

  const size = () => { const box = svg.node().getBoundingClientRect(); return [box.width || 400, box.height || 400]; };
  function fit(least = 0) {
    const [width, height] = size();
    const k = Math.max(least, Math.min(1.1, (width - 24) / where.width, (height - 24) / where.height));
    svg.call(zoom.transform, d3.zoomIdentity.translate((width - where.width * k) / 2, 12).scale(k));
  }
  /* All of it where names can be read then; else its first unit. */
  function begin() {
    const [width, height] = size();
    if (Math.min((width - 24) / where.width, (height - 24) / where.height) > 0.62) return fit();
    const first = where.nodes[0], k = 0.85;
    svg.call(zoom.transform, d3.zoomIdentity.translate(width / 2 - first.x * k, 24 - (first.y - NODE.height / 2) * k).scale(k));
  }
  function frameNodes(some) {
    const [width, height] = size(), [left, right] = d3.extent(some, (node) => node.x), [top, bottom] = d3.extent(some, (node) => node.y);
    const k = Math.min(1, width / (right - left + 2 * NODE.width), height / (bottom - top + 3 * NODE.height));
    svg.call(zoom.transform, d3.zoomIdentity.translate(width / 2, height / 2).scale(k).translate(-(left + right) / 2, -(top + bottom) / 2));
  }
  function lead(number) {
    const [width, height] = size(), node = where.nodes[number], k = Math.max(0.75, d3.zoomTransform(svg.node()).k);
    svg.call(zoom.transform, d3.zoomIdentity.translate(width / 2 - node.x * k, height * 0.76 - node.y * k).scale(k));
  }

  let nodes, edges;
  function draw() {
    where = placed(executable);
    waiting.remove();
    const line = d3.line((p) => p.x, (p) => p.y).curve(d3.curveBasis);
    edges = canvas.append("g").selectAll("path").data(executable.edges).join("path").attr("class", "edge")
      .attr("marker-end", patterns.url("arrowhead")).attr("d", (_, place) => line(where.edges[place]));
    nodes = canvas.append("g").selectAll("g").data(d3.range(executable.units.length)).join("g").attr("class", "node")
      .attr("data-unit", (number) => executable.units[number].name)
      .attr("transform", (number) => `translate(${where.nodes[number].x - NODE.width / 2},${where.nodes[number].y - NODE.height / 2})`)
      .on("pointermove", (event, number) => {
        const unit = executable.units[number];
        state.hover(unit.name);
        tip.show(event, executable, number, [format.ms(unit.ms), ...unit.outputs]);
      })
      .on("pointerleave", () => { state.hover(null); tip.hide(); })
      .on("click", (event, number) => state.choose(executable.units[number].name, "graph"));
    nodes.append("rect").attr("class", "fill").attr("rx", 7).attr("width", NODE.width).attr("height", NODE.height);
    nodes.filter((number) => patterns.of(executable.units[number]) !== "none").append("rect").attr("rx", 7)
      .attr("width", NODE.width).attr("height", NODE.height).attr("fill", (number) => patterns.of(executable.units[number])).attr("pointer-events", "none");
    nodes.append("text").attr("x", 9).attr("y", 16).text((number) => format.short(executable.units[number].name, 20));
    nodes.append("text").attr("class", "second").attr("x", 9).attr("y", 30)
      .text((number) => secondLine(executable.units[number]));
    colour();
    begin();
    overview(stage, svg, zoom, where, executable, state);
    mark();
  }
  function colour() { if (nodes) paint(nodes.select("rect.fill"), state.colouring, (number) => executable.units[number]); }
  function mark() {
    if (!nodes) return;
    const hovered = state.unitIn(executable, state.hovered), chosen = state.unitIn(executable, state.chosen);
    const main = executable.units[hovered < 0 ? chosen : hovered];
    const block = state.block?.executable === executable ? state.block.number : null;
    canvas.classed("focused", block != null);
    nodes.classed("hover", (n) => n === hovered).classed("chosen", (n) => n === chosen)
      .classed("same", (n) => main != null && main.stage != null && executable.units[n].stage === main.stage)
      .classed("match", (n) => state.matches.has(executable.units[n].name))
      .classed("inside", (n) => executable.units[n].block === block);
    edges.classed("near", ([from, to]) => from === chosen || to === chosen || from === hovered || to === hovered);
  }
  state.when("colouring", colour);
  state.when("hover choose match", mark);
  state.when("choose", () => {
    if (!where || state.origin === "graph") return;
    const chosen = state.unitIn(executable, state.chosen);
    if (chosen >= 0) lead(chosen);
    else if (state.block?.executable === executable) {
      frameNodes(where.nodes.filter((_, number) => executable.units[number].block === state.block.number));
    }
  });
  // The rest of the page is painted first: dagre takes half a second for some hundred units.
  requestAnimationFrame(() => setTimeout(() => { draw(); state.tell("placed"); performance.mark("placed"); document.documentElement.dataset.placed = "yes"; }));
}

function secondLine(unit) {
  const time = unit.ms == null ? "" : `${format.ms(unit.ms)}  `;
  return time + format.short(unit.kind, 23 - time.length);
}

/* The whole graph, small, with a frame around what is seen of it; a click goes there. */
function overview(stage, svg, zoom, where, executable, state) {
  const k = Math.min(110 / where.width, 190 / where.height), width = where.width * k, height = where.height * k;
  const small = stage.append("svg").attr("class", "overview").attr("aria-hidden", "true")
    .style("width", `${width + 8}px`).style("height", `${height + 8}px`);
  const canvas = small.append("g").attr("transform", "translate(4,4)");
  const dots = canvas.selectAll("rect").data(where.nodes).join("rect").attr("class", "fill")
    .attr("x", (node) => (node.x - NODE.width / 2) * k).attr("y", (node) => (node.y - NODE.height / 2) * k)
    .attr("width", Math.max(1.2, NODE.width * k)).attr("height", Math.max(1.2, NODE.height * k));
  const frame = canvas.append("rect").attr("class", "frame");
  const follow = (transform) => {
    const box = svg.node().getBoundingClientRect();
    frame.attr("x", (-transform.x / transform.k) * k).attr("y", (-transform.y / transform.k) * k)
      .attr("width", (box.width / transform.k) * k).attr("height", (box.height / transform.k) * k);
  };
  const go = (event) => { const [x, y] = d3.pointer(event, canvas.node()); zoom.translateTo(svg, x / k, y / k); };
  small.on("click", go).call(d3.drag().on("drag", (event) => go(event.sourceEvent)));
  const colour = () => paint(dots, state.colouring, (node) => executable.units[where.nodes.indexOf(node)]);
  zoom.on("zoom.overview", ({ transform }) => follow(transform));
  state.when("colouring", colour);
  colour();
  follow(d3.zoomTransform(svg.node()));
}

function inspector(stage, executable, state) {
  const box = stage.append("aside").attr("class", "inspector").attr("aria-label", "The chosen unit").attr("hidden", "");
  const draw = () => {
    const number = state.unitIn(executable, state.chosen);
    box.attr("hidden", number < 0 ? "" : null).selectAll("*").remove();
    if (number < 0) return;
    const unit = executable.units[number];
    box.append("button").attr("class", "close").attr("aria-label", "Close").text("×").on("click", () => state.choose(null));
    box.append("h3").text(unit.name);
    const list = box.append("dl");
    const row = (label, text) => { if (text != null && text !== "") { list.append("dt").text(label); list.append("dd").text(text); } };
    const links = (label, numbers) => {
      if (!numbers.length) return;
      list.append("dt").text(label);
      const cell = list.append("dd");
      numbers.forEach((other, place) => {
        if (place) cell.append("span").text(", ");
        cell.append("button").attr("class", "link").text(executable.units[other].name).on("click", () => state.choose(executable.units[other].name));
      });
    };
    row("operator", unit.kind);
    row("runs in", unit.stage == null ? null : `stage ${unit.stage}, group ${unit.group} (${unit.strategy.replace("_", "-")}), block ${unit.block}`);
    row("time", unit.lane_ms == null ? format.ms(unit.ms) : `${format.ms(unit.ms)}, on all lanes together ${format.ms(unit.lane_ms)}`);
    if (unit.gflops) row("speed", `${unit.gflops.toFixed(1)} GFLOP/s; its lanes are at ${format.percent(unit.of_peak)} of their peak`);
    row("work", `${format.count(unit.flops)} FLOPs, ${format.bytes(unit.bytes)} read and written`);
    row("kernel", [unit.rkernel, ...(unit.forms ?? [])].filter(Boolean).join(", "));
    row("library", unit.library);
    row("log entry", unit.tuned?.join(", "));
    row("symbols", unit.kernels?.join(", "));
    row("inputs", unit.types?.inputs.join("; "));
    row("outputs", unit.types?.outputs.join("; ") ?? unit.outputs.join("; "));
    for (const [name, value] of Object.entries(unit.attributes ?? {})) if (name !== "body") row(name, JSON.stringify(value));
    links("reads from", executable.before[number]);
    links("read by", executable.after[number]);
  };
  state.when("choose", draw);
}
