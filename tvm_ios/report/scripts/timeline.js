/* Runs on their lanes, one above another on one scale, with the waits between lanes. */
const MARGIN = { left: 66, right: 26 }, ROW = 26, TITLE = 34;
/* Pixels of a row: lanes are few, vEUs of a GPU many. */
const rowHeight = (run) => Math.max(4, Math.min(ROW, Math.floor(320 / run.rows)));

function drawTimeline(parent, executable, state) {
  const { section, head } = card(parent, executable, "timeline", "Timeline", executable.basis);
  const rows = d3.sum(executable.runs, (run) => run.rows * rowHeight(run) + TITLE + 12);
  const height = rows + 48;
  const svg = section.append("svg").attr("height", height).attr("tabindex", 0).attr("role", "application")
    .attr("aria-label", "Timeline of launches. Left and right go from launch to launch, up and down to another row, plus and minus zoom.");
  const patterns = hatches(svg);
  tools(head, [
    ["+", "Zoom in", () => state.zoom(d3.mean(state.domain), 0.6)], ["−", "Zoom out", () => state.zoom(d3.mean(state.domain), 1.7)],
    ["⤢", "Show the whole run", () => state.show(0, state.longest)],
  ]);
  const clip = `clip-${drawTimeline.count = (drawTimeline.count ?? 0) + 1}`;
  const frame = svg.append("clipPath").attr("id", clip).append("rect").attr("y", -TITLE).attr("height", height);
  let top = 4;
  const runs = executable.runs.map((run, place) => {
    const group = svg.append("g").attr("transform", `translate(0,${top})`);
    const title = group.append("text").attr("class", "run-title").attr("x", 12).attr("y", 14).text(run.title);
    title.append("tspan").attr("class", "ms").text(`   ${format.ms(run.ms)}`);
    const body = group.append("g").attr("transform", `translate(0,${TITLE})`);
    const tall = rowHeight(run), every = Math.ceil(14 / tall), gap = tall > 12 ? 1 : 0;
    for (let row = 0; row < run.rows; row++) {
      if (row % every === 0) body.append("text").attr("x", 12).attr("y", row * tall + Math.max(tall, 12) / 2 + 3).text(`${run.row} ${row}`);
      body.append("rect").attr("class", "row").attr("x", MARGIN.left).attr("y", row * tall + gap).attr("height", tall - 2 * gap).attr("data-row", row);
    }
    const inside = body.append("g").attr("clip-path", `url(#${clip})`);
    top += run.rows * tall + TITLE + 12;
    const begins = run === executable.run ? blockBegins(executable, run) : [];
    return { run, place, tall, body, begins, marks: inside.append("g"), bars: inside.append("g"), waits: inside.append("g") };
  });
  const axis = svg.append("g").attr("class", "axis").attr("transform", `translate(0,${rows + 4})`);
  const hint = svg.append("text").attr("y", rows + 40).attr("x", 12).attr("class", "hint");
  const x = d3.scaleLinear();

  function draw() {
    const width = svg.node().getBoundingClientRect().width || 800;
    x.domain(state.domain).range([MARGIN.left, width - MARGIN.right]);
    frame.attr("x", MARGIN.left).attr("width", Math.max(0, width - MARGIN.left - MARGIN.right));
    svg.selectAll("rect.row").attr("width", Math.max(0, width - MARGIN.left - MARGIN.right));
    axis.call(d3.axisBottom(x).ticks(Math.max(3, width / 110)).tickFormat((ms) => `${d3.format("~g")(ms)} ms`));
    for (const part of runs) { bars(part); arrows(part); blocks(part); }
    mark();
  }
  function bars({ run, place, tall: row, bars: layer }) {
    const [from, until] = state.domain;
    const shown = d3.range(run.spans.length).filter((n) => run.spans[n][4] >= from && run.spans[n][3] <= until);
    const drawn = layer.selectAll("g.launch").data(shown, (n) => n).join((enter) => {
      const group = enter.append("g").attr("class", "launch").attr("data-launch", (n) => `${place}.${n}`);
      group.append("rect").attr("class", "fill").attr("rx", 2);
      // Strategies are those of the schedule.
      group.filter((n) => run === executable.run && patterns.of(unitOf(run, n)) !== "none").append("rect").attr("class", "hatch").attr("pointer-events", "none")
        .attr("fill", (n) => patterns.of(unitOf(run, n)));
      group.filter((n) => row * (run.spans[n][2] - run.spans[n][1] + 1) > 14).append("text").attr("y", (n) => middle(run, run.spans[n]) + 4);
      paint(group.select("rect.fill"), state.colouring, (n) => shownAs(run, n));
      return group
        .on("pointermove", (event, n) => {
          const [, , , begin, end] = run.spans[n], unit = unitOf(run, n);
          state.hover(unit.name);
          tip.show(event, executable, run.spans[n][0], [...(run.parts ? [shownAs(run, n).name] : []), `${format.ms(end - begin)}, from ${begin.toFixed(3)} to ${end.toFixed(3)} ms`]);
        })
        .on("pointerleave", () => { state.hover(null); tip.hide(); })
        .on("click", (event, n) => { at = [place, n]; state.choose(unitOf(run, n).name, "timeline"); });
    });
    drawn.each(function (n) {
      const span = run.spans[n], left = x(span[3]), across = Math.max(0.7, x(span[4]) - left);
      const gap = row > 12 ? 2 : 0, y = span[1] * row + gap, tall = (span[2] - span[1] + 1) * row - 2 * gap;
      for (const rect of this.querySelectorAll("rect")) {
        rect.setAttribute("x", left); rect.setAttribute("width", across); rect.setAttribute("y", y); rect.setAttribute("height", tall);
      }
      const text = this.querySelector("text");
      if (!text) return;
      const seen = Math.max(left, MARGIN.left), letters = Math.floor((left + across - seen - 6) / 6.4);
      text.textContent = letters > 1 ? format.short(shownAs(run, n).name, letters) : "";
      text.setAttribute("x", seen + 4);
    });
  }
  function arrows({ run, waits: layer }) {
    const [from, until] = state.domain;
    const shown = run.waits.filter(([source, target]) => run.spans[target][3] >= from && run.spans[source][4] <= until);
    layer.selectAll("path").data(shown).join("path").attr("class", "wait").attr("marker-end", patterns.url("wait-head"))
      .attr("d", ([source, target]) => {
        const a = run.spans[source], b = run.spans[target], x0 = x(a[4]), x1 = x(b[3]), y0 = middle(run, a), y1 = middle(run, b);
        return `M${x0},${y0}C${x0 + 8},${y0} ${x1 - 8},${y1} ${x1},${y1}`;
      });
  }
  function blocks({ run, tall: row, begins, marks }) {
    const visible = begins.filter(({ ms }) => ms >= state.domain[0] && ms <= state.domain[1]);
    const tall = run.rows * row;
    let last = -20;
    marks.selectAll("line").data(visible).join("line").attr("class", "block-mark")
      .attr("x1", ({ ms }) => x(ms)).attr("x2", ({ ms }) => x(ms)).attr("y1", -10).attr("y2", tall);
    const named = visible.filter(({ ms }) => { const room = x(ms) - last > 18; if (room) last = x(ms); return room; });
    marks.selectAll("text").data(named).join("text").attr("class", "block-name").attr("x", ({ ms }) => x(ms) + 2).attr("y", -3)
      .text(({ block }) => block).on("click", (_, { block }) => state.chooseBlock(executable, block));
  }
  const unitOf = (run, n) => executable.units[run.spans[n][0]];
  /* A launch is painted as its unit, a part of a kernel as itself. */
  const shownAs = (run, n) => (run.parts ? { ...unitOf(run, n), ...run.parts[run.spans[n][5]], stage: run.spans[n][5], group: 0 } : unitOf(run, n));
  const middle = (run, span) => ((span[1] + span[2] + 1) * rowHeight(run)) / 2;

  function mark() {
    const hovered = state.unitIn(executable, state.hovered), chosen = state.unitIn(executable, state.chosen);
    const main = executable.units[hovered < 0 ? chosen : hovered];
    const block = state.block?.executable === executable ? state.block.number : null;
    svg.classed("focused", block != null);
    for (const { run, bars: layer, waits } of runs) {
      const number = (n) => run.spans[n][0];
      layer.selectAll("g.launch").classed("hover", (n) => number(n) === hovered).classed("chosen", (n) => number(n) === chosen)
        .classed("same", (n) => main != null && main.stage != null && unitOf(run, n).stage === main.stage && number(n) !== chosen)
        .classed("inside", (n) => unitOf(run, n).block === block);
      const near = ([source, target]) => [number(source), number(target)].some((n) => n === chosen || n === hovered);
      const between = x.range()[1] - x.range()[0], crowded = waits.selectAll("path").size() > between / 8;
      waits.selectAll("path").classed("near", near).attr("display", (wait) => (crowded && !near(wait) ? "none" : null));
      if (run === executable.run) hint.text(crowded ? "zoom in, or choose a launch, to see its arrows" : `arrows: what a ${executable.run.row} waited for`).attr("display", run.waits.length ? null : "none");
    }
  }

  let at = null;
  function step(key) {
    if (!at || executable.units[executable.runs[at[0]].spans[at[1]][0]].name !== state.chosen) {
      at = [executable.runs.indexOf(executable.run), firstSeen()];
      const chosen = state.unitIn(executable, state.chosen);
      const place = executable.run.spans.findIndex((span) => span[0] === chosen);
      if (place >= 0) at[1] = place;
    } else if (key === "ArrowLeft" || key === "ArrowRight") at[1] = sideways(at, key === "ArrowLeft" ? -1 : 1);
    else at = updown(at, key === "ArrowUp" ? -1 : 1);
    const span = executable.runs[at[0]].spans[at[1]];
    if (!span) return;
    state.choose(executable.units[span[0]].name, "timeline");
    if (span[3] < state.domain[0] || span[4] > state.domain[1]) {
      const width = state.domain[1] - state.domain[0];
      state.moveTo(span[3] - width / 3, width);
    }
    say(`${shownAs(executable.runs[at[0]], at[1]).name}, ${executable.runs[at[0]].row} ${span[1]}, ${format.ms(span[4] - span[3])}`);
  }
  const firstSeen = () => Math.max(0, executable.run.spans.findIndex((span) => span[4] > state.domain[0]));
  const on = (spans, row) => d3.range(spans.length).filter((m) => spans[m][1] <= row && row <= spans[m][2]);
  function sideways([place, n], by) {
    const spans = executable.runs[place].spans, row = spans[n][1];
    const same = on(spans, row).sort((a, b) => spans[a][3] - spans[b][3]);
    return same[Math.max(0, Math.min(same.length - 1, same.indexOf(n) + by))];
  }
  function updown([place, n], by) {
    const span = executable.runs[place].spans[n];
    let row = span[1] + by, run = place;
    if (row < 0 && run > 0) { run -= 1; row = executable.runs[run].rows - 1; }
    else if (row >= executable.runs[run].rows && run + 1 < executable.runs.length) { run += 1; row = 0; }
    const spans = executable.runs[run].spans, there = on(spans, row);
    return there.length ? [run, d3.least(there, (m) => Math.abs(spans[m][3] - span[3]))] : [place, n];
  }
  svg.on("keydown", (event) => {
    if (event.key.startsWith("Arrow")) { step(event.key); event.preventDefault(); }
    else if (event.key === "+" || event.key === "=") state.zoom(d3.mean(state.domain), 0.6);
    else if (event.key === "-") state.zoom(d3.mean(state.domain), 1.7);
    else if (event.key === "0") state.show(0, state.longest);
  });
  timeGestures(svg, x, state);
  state.when("domain placed", draw);
  state.when("hover choose", mark);
  state.when("colouring", () => {
    for (const { run, bars: layer } of runs) paint(layer.selectAll("g.launch").select("rect.fill"), state.colouring, (n) => shownAs(run, n));
  });
  state.when("choose", () => {
    const chosen = state.unitIn(executable, state.chosen);
    if (chosen < 0 || state.origin === "timeline") return;
    const spans = executable.run.spans.filter((span) => span[0] === chosen), [from, until] = state.domain;
    if (!spans.length || spans.some((span) => span[4] >= from && span[3] <= until)) return;
    state.moveTo(spans[0][3] - (until - from) / 3, until - from);
  });
  new ResizeObserver(draw).observe(section.node());
  draw();
}

/* When each block's first launch begins. */
function blockBegins(executable, run) {
  const begins = d3.rollup(run.spans, (spans) => d3.min(spans, (span) => span[3]), (span) => executable.units[span[0]].block);
  return Array.from(begins, ([block, ms]) => ({ block, ms })).sort((a, b) => a.ms - b.ms);
}

/* Ctrl and wheel zoom, Shift and wheel or dragging move; a plain wheel scrolls the page. */
function timeGestures(svg, x, state) {
  svg.on("wheel", (event) => {
    if (event.ctrlKey || event.metaKey) state.zoom(x.invert(d3.pointer(event)[0]), Math.exp(event.deltaY * 0.004));
    else if (event.shiftKey || Math.abs(event.deltaX) > Math.abs(event.deltaY)) state.move(((event.deltaX || event.deltaY) * (state.domain[1] - state.domain[0])) / 800);
    else return;
    event.preventDefault();
  });
  svg.call(d3.drag().filter((event) => !event.button).clickDistance(4).on("drag", (event) => {
    const [left, right] = x.range();
    state.move((-event.dx * (state.domain[1] - state.domain[0])) / (right - left));
  }));
}
