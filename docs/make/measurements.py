"""Writes the tables of several pages from results; ``--check`` only compares."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from statistics import geometric_mean
from typing import Any

ROOT = Path(__file__).parents[2]
RESULTS = ROOT / "benchmarks" / "results"

#: How tables name those that we are compared with.
_NAMES = {
    "onnxruntime": "ONNX Runtime",
    "openvino": "OpenVINO",
    "torch": "torch",
    "torch-compile": "torch.compile",
}
_ONE, _EIGHT, _MANY = "1 image", "8 images", "32 images"
#: Results of ``tvm-ios bench``: on which machine, and of what.
_BENCHES = {
    "bench_zen4": ("Zen 4", _ONE),
    "bench_zen4_batch8": ("Zen 4", _EIGHT),
    "bench_zen4_batch32": ("Zen 4", _MANY),
    "bench_zen4_torch": ("Zen 4", "1 image, torch.compile"),
    "bench_zen4_packaged": ("Zen 4", "trained networks"),
    "bench_zen4_float16": ("Zen 4", "in float16"),
    "bench_intel": ("Emerald Rapids", _ONE),
    "bench_intel_batch8": ("Emerald Rapids", _EIGHT),
    "bench_intel_exponentials": ("Emerald Rapids", "many exponentials"),
    "bench_xeon6": ("Granite Rapids", _ONE),
    "bench_xeon6_batch8": ("Granite Rapids", _EIGHT),
    "bench_cascade_lake": ("Cascade Lake", _ONE),
    "bench_cascade_lake_batch8": ("Cascade Lake", _EIGHT),
    "bench_cascade_lake_packaged": ("Cascade Lake", "trained networks"),
    "bench": ("Zen 5", _ONE),
    "bench_avx2": ("AVX2", _ONE),
    "bench_avx2_batch8": ("AVX2", _EIGHT),
}
_POLICIES = ("sequential", "ios-both", "rammer", "ios-holistic")


def page(name: str) -> str:
    """A page with its tables as the results say."""
    text = (ROOT / "docs" / name).read_text()
    for table, write in PAGES[name].items():
        marked = re.compile(
            rf"(<!-- {table}: [^\n]*-->\n\n).*?(\n<!-- end of {table} -->)", re.DOTALL
        )
        new = write()
        text, count = marked.subn(lambda match, new=new: match[1] + new + match[2], text)
        if count != 1:
            sys.exit(f"docs/{name} lacks the place of the table {table}")
    return text


def _read(name: str) -> Any:
    return json.loads((RESULTS / f"{name}.json").read_text())


def _bench(name: str) -> str:
    results = _read(name)
    peers = _peers(results)
    lines = [
        ("network", "ours", "kept (to sequential)", *(f"to {_NAMES.get(p, p)}" for p in peers))
    ]
    for row in results["networks"]:
        ratio = row["ratio"]
        kept = f"{row['kept']} ({ratio['sequential']['median']:.2f})"
        latency = f"{row['latency_ms']['ours']:.2f} ms"
        lines.append((f"`{row['model']}`", latency, kept, *(_interval(ratio[p]) for p in peers)))
    mean = (f"{results['geomean'][peer]:.2f}" for peer in peers)
    table = _table([*lines, ("geometric mean", "", "", *mean)])
    to_fastest = f"{geometric_mean(_to_fastest(results)):.2f}"
    return f"{table}\nGeometric mean to the fastest other one of each network: {to_fastest}.\n"


def _overview() -> str:
    lines: list[tuple[str, ...]] = [
        ("machine", "", "networks", "measured", "geometric mean", "smallest", "largest")
    ]
    for name, (machine, what) in _BENCHES.items():
        results = _read(name)
        ratios = _to_fastest(results)
        figures = (geometric_mean(ratios), min(ratios), max(ratios))
        about = (str(len(ratios)), results["machine"]["date"])
        link = f"[{machine}](#{machine.lower().replace(' ', '-')})"
        lines.append((link, what, *about, *(f"{figure:.2f}" for figure in figures)))
    return _table(lines)


def _to_fastest(results: Any) -> list[float]:
    """For each network the ratio to the fastest of the others."""
    peers = _peers(results)
    return [max(row["ratio"][p]["median"] for p in peers) for row in results["networks"]]


def _peers(results: Any) -> list[str]:
    return [name for name in results["geomean"] if name != "sequential"]


def _kept() -> str:
    """Where another run kept another policy: both are said."""
    benched = {row["model"]: row for row in _read("bench")["networks"]}
    differing = [
        (row, benched[row["model"]])
        for row in _read("optimize")["figures"]
        if row["model"] in benched and row["kept"] != benched[row["model"]]["kept"]
    ]
    if not differing:
        return "In the run of [the networks' page](networks.md) the same policies were kept.\n"
    said = "; ".join(
        f"of `{row['model']}` `{row['kept']}` "
        f"({row['confirmed']['sequential']['ratio']:.3f} of sequential), here `{other['kept']}`"
        for row, other in differing
    )
    return f"In another run, that of [the networks' page](networks.md), others were kept: {said}.\n"


def _vdevice() -> str:
    lines: list[tuple[str, ...]] = [("network", "bound", *_POLICIES, "predicted on 16 lanes")]
    for row in _read("vdevice")["figures"]:
        bound, predicted = max(row["bound_ms"].values()), row["predicted_ms"]["16"]
        ratios = (f"{row['latency_ms'][policy] / bound:.2f}" for policy in _POLICIES)
        gain = predicted["sequential"] / predicted["ios-holistic"]
        lines.append((f"`{row['network']}`", f"{bound:.2f} ms", *ratios, f"{gain:.2f}"))
    return _table(lines)


def _winograd(name: str = "winograd") -> str:
    lines: list[tuple[str, ...]] = [
        ("network", "lanes", "units with such a form", "direct", "with them", "ratio", "difference")
    ]
    for row in _read(name)["figures"]:
        times = (f"{row[field]:.2f} ms" for field in ("direct_ms", "ms"))
        units = f"{row['with_forms']} of {row['units']}"
        ends = (_interval(row["ratio"]), f"{row['error']:.0e}")
        lines.append((f"`{row['network']}`", str(row["lanes"]), units, *times, *ends))
    return _table(lines)


def _bfloat16(name: str = "bfloat16") -> str:
    times = ("float32", "bfloat16")
    heads = ("network", "lanes", "load", "units rounded", *times, "ratio", "difference")
    lines: list[tuple[str, ...]] = [heads]
    for row in _read(name)["figures"]:
        begins = (f"`{row['network']}`", str(row["lanes"]), f"{row['load']:.1f}")
        least = (f"{row[f'{precision}_ms']:.2f} ms" for precision in times)
        ends = (_interval(row["ratio"]), f"{row['error']:.0e}")
        lines.append((*begins, f"{row['rounded']} of {row['units']}", *least, *ends))
    return _table(lines)


def _quantised(result: str) -> str:
    others = ("float network", "ONNX Runtime", "ONNX Runtime, precise", "OpenVINO")
    heads = ("network", "data", "lanes", "units with bytes", "a run", *(f"to {o}" for o in others))
    lines: list[tuple[str, ...]] = [heads]
    for row in _read(result)["figures"]:
        begins = (
            *(f"`{row['network']}`", row["activations"]),
            *(str(row["lanes"]), str(row["forms"].get("int8", 0))),
        )
        fields = ("median", "low", "high")
        ratios = (dict(zip(fields, row["ratios"][name], strict=True)) for name in others)
        lines.append((*begins, f"{row['milliseconds']:.2f} ms", *map(_interval, ratios)))
    return _table(lines)


def _steadiness() -> str:
    rows = _read("steadiness")["figures"]
    peers = list(rows[0]["ours_to_it"])
    heads = (f"{_NAMES[peer]} {what}" for peer in peers for what in ("median", "99 %"))
    lines: list[tuple[str, ...]] = [("network", "beside it", "median", "99 %", *heads)]
    for row in rows:
        ours = (f"{row[quantile]['ours']:.1f} ms" for quantile in ("p50_ms", "p99_ms"))
        cells: list[str] = []
        for peer in peers:
            cells.append(f"{row['ours_to_it'][peer]['median']:.2f}")
            cells.append(f"{row['p99_ms']['ours'] / row['p99_ms'][peer]:.2f}")
        lines.append((f"`{row['network']}`", row["case"], *ours, *cells))
    return _table(lines)


def _shares(name: str) -> str:
    rows = _read(name)["figures"]
    parts = dict.fromkeys(part for row in rows for part in row["without_to_with"])
    heads = ("network", "batch", "kept", "latency", *(f"without {part}" for part in parts))
    lines: list[tuple[str, ...]] = [heads]
    for row in rows:
        begins = (f"`{row['network']}`", str(row["batch"]), row["kept"]["everything"])
        measured = (row["without_to_with"].get(part) for part in parts)
        ratios = (_interval(ratio) if ratio else "" for ratio in measured)
        lines.append((*begins, f"{row['ms']['everything']:.2f} ms", *ratios))
    return _table(lines)


def _throughput() -> str:
    lines: list[tuple[str, ...]] = [
        ("network", "served by", "requests a second", "median", "99 %", "time of ours to it")
    ]
    for row in _read("throughput")["figures"]:
        times = (f"{row[quantile]:.1f} ms" for quantile in ("p50_ms", "p99_ms"))
        ratio = _interval(row["ours_to_it"]) if "ours_to_it" in row else ""
        rate = f"{row['requests_a_second']:.1f}"
        lines.append((f"`{row['network']}`", row["way"], rate, *times, ratio))
    return _table(lines)


#: What one program for all shapes is compared with.
_OTHERS = {"exact": "to exact", "onnxruntime": "to ONNX Runtime", "openvino": "to OpenVINO"}


def _open_shapes() -> str:
    """A row for each network and number of threads: geometric means over its shapes."""
    rows = _read("shapes_of_networks")["figures"]
    lines: list[tuple[str, ...]] = [
        ("network", "threads", "shapes", *_OTHERS.values(), "worst to the faster one")
    ]
    for network, lanes in dict.fromkeys((row["network"], row["lanes"]) for row in rows):
        these = [row for row in rows if (row["network"], row["lanes"]) == (network, lanes)]
        means = (geometric_mean(row["open_to"][o]["median"] for row in these) for o in _OTHERS)
        worst = max(these, key=_to_best)
        lines.append(
            (
                *(f"`{network}`", str(lanes), str(len(these))),
                *(f"{mean:.2f}" for mean in means),
                f"{_to_best(worst):.2f} at {_extents(worst)}",
            )
        )
    best = [_to_best(row) for row in rows]
    return (
        f"{_table(lines)}\nGeometric mean to the faster one of ONNX Runtime and OpenVINO at each "
        f"of {len(rows)} shapes: {geometric_mean(best):.2f}; the worst is {max(best):.2f}.\n"
    )


def _every_open_shape() -> str:
    lines: list[tuple[str, ...]] = [("network", "threads", "shape", "a run", *_OTHERS.values())]
    for row in _read("shapes_of_networks")["figures"]:
        begins = (f"`{row['network']}`", str(row["lanes"]), _extents(row))
        ratios = (_interval(row["open_to"][other]) for other in _OTHERS)
        lines.append((*begins, f"{row['seconds']['open'] * 1e3:.2f} ms", *ratios))
    return _table(lines)


def _extents(row: Any) -> str:
    return " x ".join(map(str, row["shape"]))


def _to_best(row: Any) -> float:
    """The ratio of one program to the faster one of the others' sessions."""
    return max(row["open_to"][peer]["median"] for peer in ("onnxruntime", "openvino"))


def _interval(ratio: Any) -> str:
    return f"{ratio['median']:.2f} ({ratio['low']:.2f} to {ratio['high']:.2f})"


def _kib(nbytes: float) -> str:
    return f"{nbytes / 1024:,.0f}"


def _onnx_runtime() -> str:
    lines = [
        ("network", "as it came", "reordered", "fused", "fused, reordered", "ratio", "least peak")
    ]
    for row in _read("memory_onnx_runtime")["figures"]:
        blocks = [row[way][0] for way in ("came", "reordered", "as_file", "optimised")]
        proven = row["optimised_least"] == row["optimised_bound"]
        least = f"{_kib(row['optimised_least'])}{'' if proven else ', not proven'}"
        ratio = f"{blocks[-1] / blocks[0]:.2f}"
        lines.append((f"`{row['model']}`", *map(_kib, blocks), ratio, least))
    return _table(lines)


def _minimalloc() -> str:
    lines = [("arena", "buffers", "KiB", "of the capacity", "proof", "seconds")]
    rows = _read("minimalloc")["figures"]
    for row in sorted(rows, key=lambda row: (len(row["arena"]) > 1, row["buffers"], row["arena"])):
        nbytes, bound = row["arena_bytes"], row["bound_bytes"]
        share = "all fits" if row["fits"] else f"{nbytes / row['capacity_bytes']:.2f} times"
        proof = "smallest" if nbytes == bound else f"at least {_kib(bound)}"
        cells = (str(row["buffers"]), _kib(nbytes), share, proof, f"{row['seconds']:.1f}")
        lines.append((row["arena"], *cells))
    return _table(lines)


def _executorch() -> str:
    lines = [("model", "greedy", "Cadence's", "placed", "ordered and placed", "bound", "ratio")]
    for row in _read("executorch")["figures"]:
        theirs = min(row["hierarchy_bytes"], row["heuristic_bytes"])
        ours = row["arena_bytes"]
        figures = (row["greedy_bytes"], theirs, row["placed_bytes"], ours, row["bound_bytes"])
        ratio = f"{ours / row['greedy_bytes']:.2f}"
        lines.append((row["model"], *(f"{size / 1024:,.1f}" for size in figures), ratio))
    return _table(lines)


def _tflite_micro() -> str:
    lines = [("model", "tensors before", "after", "bound", "arena before", "after", "written")]
    for row in _read("tflite_micro")["figures"]:
        names = ("before", "after", "bound", "arena_before", "arena_after")
        written = ["order"] * row["reordered"] + ["plan"] * row["plan_written"]
        figures = (f"{row[f'{name}_bytes']:,}" for name in names)
        lines.append((row["model"], *figures, ", ".join(written) or "nothing"))
    return _table(lines)


def _placements() -> str:
    rows = _read("graphturbo")["figures"]["networks"]
    names = list(rows[0]["over_published_placement"])
    lines = [("figures", *(row["model"] for row in rows))]
    for name in names:
        figure, factor = name.split(" x ")
        ratios = (f"{row['over_published_placement'][name]:.1f}" for row in rows)
        lines.append((f"`{figure}` x {factor}", *ratios))
    return _table(lines)


def _table(lines: list[tuple[str, ...]]) -> str:
    rows = [f"| {' | '.join(cells)} |" for cells in lines]
    rows.insert(1, "|" + "---|" * len(lines[0]))
    return "\n".join(rows) + "\n"


#: Of each page its tables.
PAGES: Mapping[str, Mapping[str, Callable[[], str]]] = {
    "accelerators.md": {"placements": _placements},
    "measurements.md": {
        "overview": _overview,
        **{name: partial(_bench, name) for name in _BENCHES},
        "kept": _kept,
        "shares": partial(_shares, "shares"),
        "shares_intel": partial(_shares, "shares_intel"),
        "steadiness": _steadiness,
        "vdevice": _vdevice,
    },
    "quantised.md": {
        "quantised": partial(_quantised, "quantised"),
        "quantised_intel": partial(_quantised, "quantised_intel"),
    },
    "memory_planner.md": {
        "minimalloc": _minimalloc,
        "onnx_runtime": _onnx_runtime,
        "executorch": _executorch,
        "tflite_micro": _tflite_micro,
    },
    "shapes.md": {"open_shapes": _open_shapes, "every_open_shape": _every_open_shape},
    "throughput.md": {"throughput": _throughput},
    "winograd.md": {
        "winograd": _winograd,
        "winograd_intel": partial(_winograd, "winograd_intel"),
        "winograd_zen4": partial(_winograd, "winograd_zen4"),
    },
    "bfloat16.md": {
        "bfloat16": _bfloat16,
        "bfloat16_intel": partial(_bfloat16, "bfloat16_intel"),
    },
}

if __name__ == "__main__":
    pages = {ROOT / "docs" / name: page(name) for name in PAGES}
    if "--check" in sys.argv[1:]:
        raise SystemExit(any(path.read_text() != text for path, text in pages.items()))
    for path, text in pages.items():
        path.write_text(text)
