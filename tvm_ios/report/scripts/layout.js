/* Cards and the two columns that they stand in, and where dagre places the units of a graph. */
function card(parent, executable, kind, title, note = "") {
  const section = parent.append("section").attr("class", `card ${kind}`).attr("aria-label", executable.compared ? `${title}: ${executable.name}` : title);
  const head = section.append("header"), heading = head.append("h2").text(title);
  if (note) heading.append("small").text(`  ${note}`);
  return { section, head };
}

function tools(head, buttons) {
  const box = head.append("div").attr("class", "tools");
  for (const [text, label, act] of buttons) {
    box.append("button").attr("type", "button").attr("aria-label", label).attr("title", label).text(text).on("click", act);
  }
}

const NODE = { width: 138, height: 38 };

function placed(executable) {
  const graph = new dagre.graphlib.Graph();
  graph.setGraph({ rankdir: "TB", ranker: "tight-tree", nodesep: 14, ranksep: 30, edgesep: 8 });
  graph.setDefaultEdgeLabel(() => ({}));
  executable.units.forEach((_, number) => graph.setNode(number, { ...NODE }));
  for (const [from, to] of executable.edges) graph.setEdge(from, to);
  dagre.layout(graph);
  const { width, height } = graph.graph();
  return {
    width, height,
    nodes: executable.units.map((_, number) => graph.node(number)),
    edges: executable.edges.map(([from, to]) => graph.edge(from, to).points),
  };
}
