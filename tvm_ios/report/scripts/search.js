/* Finds units by parts of their names and operators. */
function startSearch(state) {
  const input = d3.select("#search"), list = d3.select("#found");
  const units = d3.union(state.executables.flatMap((e) => e.units.map((unit) => unit.name)));
  const kinds = new Map(state.executables.flatMap((e) => e.units.map((unit) => [unit.name, unit.kind])));
  let found = [], at = 0;
  function look() {
    const words = input.property("value").toLowerCase().split(/\s+/).filter(Boolean);
    found = words.length ? [...units].filter((name) => words.every((word) => `${name} ${kinds.get(name)}`.toLowerCase().includes(word))) : [];
    at = 0;
    state.matches = new Set(found);
    state.tell("match");
    say(words.length ? `${found.length} units found` : "");
    show(words.length > 0);
  }
  function show(open) {
    list.attr("hidden", open ? null : "").selectAll("*").remove();
    input.attr("aria-expanded", open).attr("aria-activedescendant", open && found.length ? `found-${at}` : null);
    if (!open) return;
    const items = list.selectAll("li").data(found.slice(0, 40)).join("li").attr("role", "option").attr("id", (_, place) => `found-${place}`)
      .attr("aria-selected", (_, place) => place === at).on("mousedown", (event, name) => { event.preventDefault(); take(name); });
    items.append("span").text((name) => name);
    items.append("small").text((name) => kinds.get(name));
    if (!found.length) list.append("li").text("no unit has that in its name or operator");
    list.select("[aria-selected='true']").node()?.scrollIntoView({ block: "nearest" });
  }
  function take(name) { show(false); state.choose(name, "search"); }
  input.on("input focus", look).on("blur", () => show(false)).on("keydown", (event) => {
    if (event.key === "ArrowDown" || event.key === "ArrowUp") {
      const most = Math.min(40, found.length);
      if (most) at = (at + (event.key === "ArrowDown" ? 1 : most - 1)) % most;
      show(true);
      event.preventDefault();
    } else if (event.key === "Enter" && found.length) take(found[at]);
    else if (event.key === "Escape") { input.property("value", ""); look(); event.stopPropagation(); }
  });
}
