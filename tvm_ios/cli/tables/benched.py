"""Our programs beside peers, as a table."""

from __future__ import annotations

from typing import Any

from rich.markup import escape
from rich.table import Table

from tvm_ios.cli.frame.output import console


def print_benched(document: dict[str, Any]) -> None:
    """Print a row for each runner of each network, and the means over networks."""
    out = console()
    machine = document["machine"]
    peaks = machine["peak"]
    reached = "; ".join(
        f"{n} lane{'s' * (n != '1')} {peak['gflops']:.0f} GFLOP/s, {peak['gbps']:.0f} GB/s"
        for n, peak in peaks.items()
    )
    peak = f"; measured peak of {reached}" if reached else ""
    out.print(f"{machine['processor']}, {machine['lanes']} lanes{peak}")
    table = Table("network", "runner", "latency", "ours to it", "95 %", "pairs", "largest error")
    for network in document["networks"]:
        for place, (name, latency) in enumerate(network["latency_ms"].items()):
            ratio = network["ratio"].get(name)
            is_reference = name == network["reference"]
            table.add_row(
                f"{escape(network['model'])} (batch {network['batch']})" if place == 0 else "",
                f"ours ({network['kept']})" if name == "ours" else name,
                f"{latency:.3f} ms",
                "" if ratio is None else f"{ratio['median']:.3f}",
                "" if ratio is None else f"{ratio['low']:.3f} to {ratio['high']:.3f}",
                "" if ratio is None else str(ratio["pairs"]),
                "reference" if is_reference else f"{network['max_rel_error'][name]:.1e}",
                style="bold" if name == "ours" else "",
                end_section=place == len(network["latency_ms"]) - 1,
            )
    for runner, mean in document["geomean"].items():
        table.add_row("geometric mean", runner, "", f"{mean:.3f}", "", "", "")
    out.print(table)
    out.print("Ratios below 1: ours is faster. Errors are relative to the largest output.")
    # Documents that were begun earlier do not say it.
    for source in dict.fromkeys(n["verified"] for n in document["networks"] if n.get("verified")):
        out.print(escape(f"Before, ours and sequential were compared with {source}."))
