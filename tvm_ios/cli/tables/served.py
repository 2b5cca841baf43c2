"""Ways to serve many requests, as a table or JSON."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING

from rich.markup import escape
from rich.table import Table

from tvm_ios.cli.frame.output import console, print_json

if TYPE_CHECKING:
    from tvm_ios.api.throughput import OptimizedThroughput


def print_served(done: OptimizedThroughput, as_json: bool) -> None:
    """Print what was measured and kept."""
    first = next(iter(done.optimized.values()))
    ratio = done.confirmed
    if as_json:
        print_json(
            {
                "model": first.model,
                "objective": "throughput",
                "ways": [way.to_json() for way in done.ways],
                "kept": done.kept,
                "confirmed": None if ratio is None else {"ratio": ratio.median, **asdict(ratio)},
                "in_flight": done.in_flight,
                "notes": list(dict.fromkeys(n for o in done.optimized.values() for n in o.notes)),
                "executable": str(done.executable),
            }
        )
        return
    out = console()
    for note in dict.fromkeys(n for o in done.optimized.values() for n in o.notes):
        out.print(f"[yellow]{escape(note)}[/yellow]")
    table = Table(
        *(
            "way",
            "policy",
            "lanes x workers",
            "requests/s",
            "half within",
            "99 % within",
            "to in-turn",
        ),
        title=escape(first.model),
        caption=f"{done.in_flight} requests in flight; times of requests include waiting",
    )
    for way in done.ways:
        table.add_row(
            way.way,
            way.policy,
            f"{way.lanes} x {way.workers}",
            f"{way.requests_a_second:.1f}",
            f"{way.p50 * 1e3:.2f} ms",
            f"{way.p99 * 1e3:.2f} ms",
            f"{way.ratio:.3f}",
            style="bold green" if way.way == done.kept else "",
        )
    out.print(table)
    compared = (
        "no other way is surely faster"
        if ratio is None
        else f"in {ratio.pairs} pairs of samples in fresh processes {ratio.median:.3f} of the time "
        f"of one request after another ({ratio.low:.3f} to {ratio.high:.3f})"
    )
    out.print(f"kept [bold green]{done.kept}[/bold green]: {compared}")
    out.print(escape(f"executable: {done.executable}  (tvm-ios run {done.executable})"))
