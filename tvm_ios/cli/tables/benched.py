"""Our programs beside peers, as a table."""

from __future__ import annotations

import math
import sys
from typing import TYPE_CHECKING, Any

import typer
from rich.markup import escape
from rich.table import Column, Table

from tvm_ios.cli.frame.output import console

if TYPE_CHECKING:
    from tvm_ios.bench.document import BenchDocument


def print_benched(document: dict[str, Any]) -> None:
    """Print a row for each runner of each network, and the means over networks."""
    out = console()
    _print_machine(document)
    heads = ("latency", "ours to it", "95 %", "pairs", "largest error", "taken")
    table = Table("network", "runner", *heads)
    for network in document["networks"]:
        for place, (name, latency) in enumerate(network["latency_ms"].items()):
            ratio = network["ratio"].get(name)
            is_reference = name == network["reference"]
            table.add_row(
                _named(network) if place == 0 else "",
                f"ours ({network['kept']})" if name == "ours" else name,
                f"{latency:.3f} ms",
                "" if ratio is None else f"{ratio['median']:.3f}",
                "" if ratio is None else f"{ratio['low']:.3f} to {ratio['high']:.3f}",
                "" if ratio is None else str(ratio["pairs"]),
                "reference" if is_reference else f"{network['max_rel_error'][name]:.1e}",
                _part(network.get("taken", {}).get(name)),
                style="bold" if name == "ours" else "",
                end_section=place == len(network["latency_ms"]) - 1,
            )
    for runner, mean in document["geomean"].items():
        table.add_row("geometric mean", runner, "", f"{mean:.3f}", "", "", "", "")
    out.print(table)
    out.print("Ratios below 1: ours is faster. Errors are relative to the largest output.")
    _print_taken(document)
    if precision := document["settings"].get("precision"):
        rounding = ["Ours", "sequential", *document["settings"].get("in_bfloat16", ())]
        out.print(f"{', '.join(rounding)}: --precision {precision}; other peers are in float32.")
    # Documents begun with an earlier version lack it.
    ours = "our program was" if "ranges" in document["settings"] else "ours and sequential were"
    for source in dict.fromkeys(n["verified"] for n in document["networks"] if n.get("verified")):
        out.print(escape(f"Before, {ours} compared with {source}."))


def _print_taken(document: dict[str, Any]) -> None:
    """Print of each peer whose backend left operators to plainer kernels which part it took."""
    for network in document["networks"]:
        for name, taken in network.get("taken", {}).items():
            if taken["operators"] < 1:
                console().print(
                    f"Of {_named(network)} the backend of {name} took {_part(taken)} of the "
                    f"operators, with {_part(taken, 'multiply_adds')} of the multiply-adds; the "
                    "rest ran in plainer kernels."
                )


def _part(taken: dict[str, float] | None, of: str = "operators") -> str:
    """Return a part in percent, rounded down so that only the whole is all; empty if not known."""
    if taken is None:
        return ""
    return "all" if taken[of] == 1 else f"{math.floor(taken[of] * 1000) / 10:.1f} %"


def _named(network: dict[str, Any]) -> str:
    name = escape(network["model"])
    return f"{name} at {network['at']}" if "at" in network else f"{name} (batch {network['batch']})"


def tell_failures(document: BenchDocument) -> None:
    """Tell what could not be measured, and then end the command with an error."""
    for failure in document.failed:
        who = " on ".join(filter(None, (failure["model"], failure["runner"])))
        print(f"tvm-ios: {who}: {failure['error']}", file=sys.stderr)
    if document.failed:
        raise typer.Exit(1)


def print_served_beside_peers(document: dict[str, Any]) -> None:
    """Print requests a second of each runner and network, and the means over networks."""
    out = console()
    _print_machine(document)
    heads = ("requests/s", "half within", "99 % within", "ours to it", "95 %", "largest error")
    # Do not wrap: the names of one peer's ways differ only at their ends.
    table = Table("network", Column("runner", no_wrap=True), *heads)
    for network in document["networks"]:
        for place, (name, rate) in enumerate(network["requests_a_second"].items()):
            ratio = network["ratio"].get(name)
            table.add_row(
                f"{escape(network['model'])} (batch {network['batch']})" if place == 0 else "",
                name,
                f"{rate:.1f}",
                f"{network['p50_ms'][name]:.2f} ms",
                f"{network['p99_ms'][name]:.2f} ms",
                "" if ratio is None else f"{ratio['median']:.3f}",
                "" if ratio is None else f"{ratio['low']:.3f} to {ratio['high']:.3f}",
                "reference"
                if name == network["reference"]
                else f"{network['max_rel_error'][name]:.1e}",
                style="bold" if name == "ours" else "",
                end_section=place == len(network["requests_a_second"]) - 1,
            )
    for runner, mean in document["geomean"].items():
        table.add_row("geometric mean", runner, "", "", "", f"{mean:.3f}", "", "")
    out.print(table)
    for network in document["networks"]:
        out.print(
            escape(
                f"{network['model']}: ours is {network['kept']}, of the policy "
                f"{network['policy']}, with {network['workers']} at once"
            )
        )
    for count in dict.fromkeys(network["in_flight"] for network in document["networks"]):
        out.print(f"{count} requests were in flight; times of requests include waiting.")
    out.print("Ratios are of times for as many requests; below 1 ours serves more a second.")


def _print_machine(document: dict[str, Any]) -> None:
    machine = document["machine"]
    peaks = machine["peak"]
    reached = "; ".join(
        f"{n} lane{'s' * (n != '1')} {peak['gflops']:.0f} GFLOP/s, {peak['gbps']:.0f} GB/s"
        for n, peak in peaks.items()
    )
    peak = f"; measured peak of {reached}" if reached else ""
    console().print(f"{machine['processor']}, {machine['lanes']} lanes{peak}")
