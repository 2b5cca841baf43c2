/* What each policy came to when the executable was made. */
function drawPolicies(parent, executable) {
  if (!executable.policies.length) return;
  const { section } = card(parent, executable, "policies", "What each policy came to", "measured in turn when the executable was made");
  const base = executable.policies.find((row) => row.policy === "sequential")?.ms;
  // What is many times slower would leave no room for the others.
  const longest = d3.max(executable.policies.filter((row) => !base || row.ms <= 3 * base), (row) => row.ms);
  const table = section.append("div").attr("class", "scroll").append("table");
  table.append("thead").append("tr").selectAll("th").data(["policy", "stages", "ms", "to sequential", "largest error", "latency"]).join("th").attr("scope", "col").classed("left", (name) => name === "latency").text((name) => name);
  const rows = table.append("tbody").selectAll("tr").data(executable.policies).join("tr").classed("kept", (row) => row.policy === executable.kept);
  rows.append("td").text((row) => row.policy + (row.policy === executable.kept ? " (kept)" : ""));
  rows.append("td").text((row) => row.stages ?? "–");
  rows.append("td").text((row) => row.ms.toFixed(3));
  rows.append("td").text((row) => format.ratio(row.ratio ?? (base ? row.ms / base : null)));
  rows.append("td").text((row) => (row.error == null ? "–" : row.error.toExponential(1)));
  rows.append("td").attr("class", "left").style("width", "40%").append("span").attr("class", "track").append("span")
    .attr("class", (row) => `meter ${row.policy === executable.kept ? "kept" : ""}`).style("width", (row) => `${Math.min(1, row.ms / longest) * 92}%`)
    .filter((row) => row.ms > longest).each(function () { d3.select(this.parentNode).append("span").text(" ⋯"); });
  const told = Object.entries(executable.confirmed).map(
    ([other, ratio]) => `${ratio.median.toFixed(3)} of ${other} (95 % interval ${ratio.low.toFixed(3)} to ${ratio.high.toFixed(3)}, ${ratio.pairs} pairs of runs)`
  );
  if (told.length) section.append("p").attr("class", "note").text(`${executable.kept} in fresh processes: ${told.join("; ")}`);
}
