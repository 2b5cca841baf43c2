/* Reads the data and draws the page. */
function drawHead(parent, executable) {
  const head = parent.append("div").attr("class", "head");
  if (executable.compared) head.append("h2").text(executable.name);
  const cards = head.append("div").attr("class", "cards");
  const figure = (text, label, title = "") => {
    const box = cards.append("div").attr("class", "figure").attr("title", title);
    box.append("b").text(text);
    box.append("span").text(label);
  };
  figure(format.ms(executable.latency_ms), executable.total ? "median latency" : "latency, measured", executable.basis);
  const first = executable.runs[0], last = executable.run;
  const paired = executable.kept === "sequential" ? null : executable.confirmed.sequential;
  if (paired) figure(format.ratio(paired.median), "of the sequential program", `${paired.pairs} pairs of runs, ${paired.low.toFixed(3)} to ${paired.high.toFixed(3)}`);
  else if (executable.total && first !== last && first.ms) figure(format.ratio(last.ms / first.ms), "of its kernels one after another", "fastest run over fastest run");
  if (executable.total) {
    figure(format.percent(executable.total.busy), `of the ${executable.run.row}s' time in kernels`);
    figure(format.percent(executable.total.waiting), `of the ${executable.run.row}s' time waiting`);
    const name = BOUNDS.find(([key]) => key === executable.total.bound)[1];
    figure(format.ms(executable.total.bounds_ms[executable.total.bound]), `largest bound: ${name}`);
  }
  if (executable.memory) figure(format.bytes(executable.memory.arena_bytes), `arena; apart ${format.bytes(executable.memory.unshared_bytes)}`);
  if (executable.peak) figure(`${executable.peak.gflops.toFixed(0)} GFLOP/s`, `peak of ${executable.run.row === "lane" ? format.number(executable.lanes, "lane") : "the device"}; ${executable.peak.gbps.toFixed(1)} GB/s`);
  if (executable.total) head.append("p").attr("class", "says").text(executable.total.advice);
  if (executable.disturbance > 1.3 || executable.preemptions > 0.5) {
    head.append("p").attr("class", "says warn").text(
      `Something else kept this machine busy: lanes were stopped ${executable.preemptions.toFixed(1)} times a run, their kernels stood still for ${executable.held_up_ms.toFixed(2)} ms of a profiled one, and half of the runs took ` +
      `${executable.disturbance.toFixed(1)} times as long as the fastest, or longer. What is shown is the fastest run; make the page again when nothing else runs.`);
  }
  const facts = head.append("p").attr("class", "facts");
  executable.facts.forEach(([label, value], place) => { facts.append("span").text(`${place ? "  ·  " : ""}${label} `); facts.append("b").text(value); });
}

(function main() {
  const executables = JSON.parse(document.getElementById("data").textContent).executables.map(prepared);
  const state = new State(executables), compare = executables.length > 1;
  executables.forEach((executable, place) => { executable.first = place === 0; executable.compared = compare; });
  const subject = executables.map((e) => (e.model && !e.name.startsWith(e.model) ? `${e.model} (${e.name})` : e.name) + `: ${e.policy}, ${format.ms(e.latency_ms)}`);
  d3.select("#subject").text(subject.join("  beside  "));
  const page = d3.select("#main").classed("compare", compare);
  for (const executable of executables) {
    const box = page.append("article").attr("class", "executable").attr("aria-label", executable.name);
    drawHead(box, executable);
    drawGraph(box, executable, state);
    const column = box.append("div").attr("class", "column");
    drawTimeline(column, executable, state);
    drawArena(column, executable, state);
    drawPolicies(column, executable);
    drawBlocks(column, executable, state);
    drawUnits(column, executable, state);
  }
  startSearch(state);
  if (state.colouring === "instance") d3.select("#colouring").insert("option", "option").attr("value", "instance").text("sub-graph and instance");
  d3.select("#colouring").property("value", state.colouring).on("change", function () { state.colouring = this.value; state.tell("colouring"); });
  const dark = () => (document.documentElement.dataset.theme ?? (matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light")) === "dark";
  const turn = () => { document.documentElement.dataset.theme = dark() ? "light" : "dark"; };
  d3.select("#theme").on("click", turn);
  d3.select("#help-open").on("click", () => document.getElementById("help").showModal());
  document.addEventListener("keydown", (event) => {
    if (event.target.matches("input, select") || event.ctrlKey || event.metaKey || document.querySelector("dialog[open]")) return;
    if (event.key === "/") { document.getElementById("search").focus(); event.preventDefault(); }
    else if (event.key === "Escape") { state.choose(null); tip.hide(); }
    else if (event.key === "t") turn();
    else if (event.key === "?") document.getElementById("help").showModal();
  });
})();
