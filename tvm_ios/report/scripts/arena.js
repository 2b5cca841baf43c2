/* Bytes of the arena in use over a run, beside the arena and the least that any arena needs. */
function drawArena(parent, executable, state) {
  const runs = executable.runs.filter((run) => run.arena.length);
  if (!runs.length || !executable.memory) return;
  const { arena_bytes: size, least_bytes: least, unshared_bytes: unshared } = executable.memory;
  const { section } = card(parent, executable, "arena", "Memory over time",
    `arena ${format.bytes(size)}, lower bound ${format.bytes(least)}, without sharing ${format.bytes(unshared)}`);
  const height = 132, svg = section.append("svg").attr("height", height).attr("role", "img")
    .attr("aria-label", `At most ${format.bytes(d3.max(runs.at(-1).arena, (step) => step[1]))} of an arena of ${format.bytes(size)} are in use at once; no arena is smaller than ${format.bytes(least)}.`);
  const x = d3.scaleLinear(), y = d3.scaleLinear([0, Math.max(size, d3.max(runs, (run) => d3.max(run.arena, (step) => step[1]))) * 1.1 || 1], [height - 22, 8]);
  const clip = `arena-${drawArena.count = (drawArena.count ?? 0) + 1}`;
  const frame = svg.append("clipPath").attr("id", clip).append("rect").attr("height", height);
  const bottom = svg.append("g").attr("class", "axis").attr("transform", `translate(0,${height - 22})`);
  const side = svg.append("g").attr("class", "axis").attr("transform", `translate(${MARGIN.left},0)`);
  const inside = svg.append("g").attr("clip-path", `url(#${clip})`);
  const areas = inside.selectAll("path").data(runs.toReversed()).join("path").attr("class", (run) => (run === runs.at(-1) ? "area" : "area sequential"));
  const limits = inside.selectAll("line").data([size, least]).join("line").attr("class", (_, place) => (place ? "limit least" : "limit"));
  function draw() {
    const width = svg.node().getBoundingClientRect().width || 800;
    x.domain(state.domain).range([MARGIN.left, width - MARGIN.right]);
    frame.attr("x", MARGIN.left).attr("width", Math.max(0, width - MARGIN.left - MARGIN.right));
    bottom.call(d3.axisBottom(x).ticks(Math.max(3, width / 110)).tickFormat((ms) => `${d3.format("~g")(ms)} ms`));
    side.call(d3.axisLeft(y).tickValues(d3.range(4).map((part) => (part * y.domain()[1]) / 4)).tickFormat((nbytes) => format.bytes(nbytes)));
    areas.attr("d", (run) => d3.area((step) => x(step[0]), y(0), (step) => y(step[1])).curve(d3.curveStepAfter)(run.arena));
    limits.attr("x1", MARGIN.left).attr("x2", width).attr("y1", (nbytes) => y(nbytes)).attr("y2", (nbytes) => y(nbytes));
  }
  svg.on("pointermove", (event) => {
    const ms = x.invert(d3.pointer(event)[0]), steps = runs.at(-1).arena;
    const step = steps[Math.max(0, d3.bisector((s) => s[0]).right(steps, ms) - 1)];
    note.text(`${format.bytes(step[1])} in use at ${ms.toFixed(3)} ms`);
  }).on("pointerleave", () => note.text(explained));
  const explained = `filled: ${executable.policy}${runs.length > 1 ? "; dashed: the same kernels one after another" : ""}; lines: the arena (solid), the lower bound (dashed)`;
  const note = section.append("p").attr("class", "note").text(explained);
  timeGestures(svg, x, state);
  state.when("domain", draw);
  new ResizeObserver(draw).observe(section.node());
  draw();
}
