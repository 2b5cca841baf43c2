/* Numbers for people. */
const format = {
  ms(value) {
    if (value == null) return "–";
    if (value >= 100) return `${value.toFixed(1)} ms`;
    return value >= 1 ? `${value.toFixed(2)} ms` : `${(value * 1000).toFixed(1)} µs`;
  },
  bytes(value) {
    if (value == null) return "–";
    const units = ["B", "KiB", "MiB", "GiB"];
    let at = 0;
    for (; value >= 1024 && at + 1 < units.length; at++) value /= 1024;
    return `${value.toFixed(at ? (value < 10 ? 2 : 1) : 0)} ${units[at]}`;
  },
  count(value) {
    if (value == null) return "–";
    return value >= 1e9 ? `${(value / 1e9).toFixed(2)} G` : value >= 1e6 ? `${(value / 1e6).toFixed(1)} M` : d3.format(",")(value);
  },
  number: (value, what) => `${value} ${what}${value === 1 ? "" : "s"}`,
  percent: (value) => (value == null ? "–" : `${(value * 100).toFixed(0)} %`),
  ratio: (value) => (value == null ? "–" : value.toFixed(3)),
  /* The last part of a name, with what contains it if there is room. */
  short(name, letters) {
    const last = name.split("+").map((part) => part.split("/").pop()).join("+");
    const shown = name.length <= letters ? name : last;
    return shown.length <= letters ? shown : letters < 3 ? "" : `${shown.slice(0, letters - 1)}…`;
  },
};
