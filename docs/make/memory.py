"""Makes ``docs/memory.md`` of what tests and benchmarks found; ``--check`` only compares."""

from __future__ import annotations

import json
import statistics
import sys
import textwrap
from pathlib import Path
from typing import Any

from benchmarks.papers.catalogue import item_named
from benchmarks.papers.memory.peaks import NETWORKS

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "memory.md"
TEXT = ROOT / "docs" / "make" / "memory_text.md"
#: Peaks and proofs, which tests repeat.
GOLDEN = ROOT / "tests" / "memory" / "golden.json"
#: Every scheduler with its seconds, from ``python -m benchmarks.memory.schedulers``.
RESULT = ROOT / "benchmarks" / "results" / "memory.json"
#: The random graphs, from ``python -m benchmarks.memory.schedulers --random``.
RANDOM = ROOT / "benchmarks" / "results" / "memory_random.json"

#: Peak KB of reverse post-order and of the best order, table II of the paper.
PUBLISHED = {
    NETWORKS[label][0]: (peaks["rpo"], peaks["fusion-ilp"])
    for label, peaks in item_named("memory-aware-scheduling/table-2").values.items()
}


def page() -> str:
    """The page, made of the files above."""
    parts = TEXT.read_text().split("<!-- table -->\n")
    tables = (_comparison(), _schedulers(), _random())
    return "".join(text + table for text, table in zip(parts, (*tables, ""), strict=True))


def _comparison() -> str:
    golden = json.loads(GOLDEN.read_text())
    rows = [
        "| network | operators | rpo | optimal | saved | in place: rpo | optimal | saved "
        "| activations fused: rpo | optimal | saved | published: rpo | best | saved |",
        "|---|---|---|---|---|---|---|---|---|---|---|---|---|---|",
    ]
    for name, peaks in golden.items():
        cells = [f"`{name}`", str(peaks["operators"])]
        for count in ("separate", "in_place", "fused"):
            cells += _saving(peaks[count]["rpo"] / 1024, peaks[count]["optimal"] / 1024)
        cells += _saving(*PUBLISHED[name]) if name in PUBLISHED else ["", "", ""]
        rows.append(f"| {' | '.join(cells)} |")
    return "\n".join(rows) + "\n"


def _saving(before: float, after: float) -> list[str]:
    return [f"{before:,.0f}", f"{after:,.0f}", f"{1 - after / before:.1%}"]


def _schedulers() -> str:
    if not RESULT.exists():
        return "`python -m benchmarks.memory.schedulers` measures and prints it.\n"
    result: dict[str, Any] = json.loads(RESULT.read_text())
    rows = [
        "| network | count | scheduler | peak KiB | arena KiB | seconds | operators | fused "
        "| proof |",
        "|---|---|---|---|---|---|---|---|---|",
    ]
    for row in result["figures"]:
        cells = (
            f"`{row['model']}`",
            _count(row) or "plain",
            row["name"],
            f"{row['peak_kib']:,.0f}",
            f"{row['arena_kib']:,.0f}",
            f"{row['seconds']:.2f}",
            str(row["operators"]),
            str(row["fused_operators"]),
            "yes" if row["proof"] else "no",
        )
        rows.append(f"| {' | '.join(cells)} |")
    return "\n".join(rows) + _measured_on(result) + _losses(result["figures"])


def _count(row: dict[str, Any]) -> str:
    """What is counted otherwise than plainly."""
    return "in place" if row["in_place"] else "fused" if row["activations_fused"] else ""


def _losses(figures: list[dict[str, Any]]) -> str:
    """Where the seed's method misses the optimum, and by how much."""
    peaks = {(row["name"], row["model"], _count(row)): row["peak_kib"] for row in figures}
    ours = {key[1:]: peak for key, peak in peaks.items() if key[0] == "fusion-ilp"}
    lost = [
        f"`{model}`{f' ({count})' if count else ''} by {peak / best - 1:.1%}"
        for (model, count), peak in ours.items()
        if peak > (best := peaks["optimal", model, count])
    ]
    text = f"`fusion-ilp` reaches the optimum in {len(ours) - len(lost)} of {len(ours)} rows"
    why = "; in the others its time or its partition, whose parts are ordered one by one, loses"
    sentence = f"{text}{why}: {', '.join(lost)}." if lost else f"{text}."
    return f"\n{textwrap.fill(sentence, 110, break_on_hyphens=False)}\n"


def _random() -> str:
    if not RANDOM.exists():
        return "`python -m benchmarks.memory.schedulers --random` measures and prints it.\n"
    result: dict[str, Any] = json.loads(RANDOM.read_text())
    figures = [row for row in result["figures"] if not row["activations_fused"]]
    optimal = [row for row in figures if row["name"] == "optimal"]
    rows = [
        "| graphs | in place | number | proven | median seconds | largest gap |",
        "|---|---|---|---|---|---|",
    ]
    for kind, label in (("dag", "random DAGs"), ("nas", "random NAS networks")):
        for in_place in (False, True):
            some = [r for r in optimal if r["model"].startswith(kind) and r["in_place"] is in_place]
            if not some:
                continue
            seconds = statistics.median(row["seconds"] for row in some)
            proven = sum(row["proof"] for row in some)
            rows.append(
                f"| {label} | {'yes' if in_place else 'no'} | {len(some)} | {proven} "
                f"| {seconds:.2f} | {max(map(_gap, some)):.1%} |"
            )
    rows += [
        "",
        "Those without a proof:",
        "",
        "| graph | in place | operators | rpo KiB | peak KiB | at least KiB | gap |",
        "|---|---|---|---|---|---|---|",
    ]
    baseline = {(row["model"], row["in_place"]): row for row in figures if row["name"] == "rpo"}
    for row in optimal:
        if not row["proof"]:
            before = baseline[row["model"], row["in_place"]]["peak_kib"]
            rows.append(
                f"| `{row['model']}` | {'yes' if row['in_place'] else 'no'} | {row['operators']} "
                f"| {before:,.0f} | {row['peak_kib']:,.0f} | {row['bound_kib']:,.0f} "
                f"| {_gap(row):.1%} |"
            )
    return "\n".join(rows) + _measured_on(result)


def _gap(row: dict[str, Any]) -> float:
    """How far above the optimum a peak can be at most."""
    return row["peak_kib"] / row["bound_kib"] - 1


def _measured_on(result: dict[str, Any]) -> str:
    machine = result["machine"]
    return f"\n\nMeasured on {machine['processor']}, {machine['date']}.\n"


def main() -> None:
    """Write the page, or compare it."""
    if "--check" in sys.argv[1:]:
        if PAGE.read_text() != page():
            sys.exit("docs/memory.md is not what the result files say: make it anew")
        return
    PAGE.write_text(page())


if __name__ == "__main__":
    main()
