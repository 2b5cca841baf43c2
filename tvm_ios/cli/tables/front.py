"""The Pareto front of latency and memory, as a table or JSON."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.markup import escape
from rich.table import Table

from tvm_ios.cli.frame.output import console, print_json
from tvm_ios.files.byte_sizes import kib
from tvm_ios.graph.op_graph import OpGraph

if TYPE_CHECKING:
    from tvm_ios.ios.memory_front import FrontPoint


def print_front(
    graph: OpGraph,
    front: tuple[FrontPoint, ...],
    policy: str,
    cost: str,
    tail: str | None,
    as_json: bool,
) -> None:
    """Print the Pareto front of latency and memory, the fastest schedule first."""
    if as_json:
        print_json(
            {
                "model": graph.name,
                "tail": tail,
                "policy": policy,
                "cost": cost,
                "front": [
                    {
                        "latency_ms": point.schedule.latency * 1e3,
                        "memory_bytes": point.peak,
                        "stages": len(point.schedule.stages),
                    }
                    for point in front
                ],
            }
        )
        return
    title = f"{escape(graph.name)}: {policy}, latency against memory"
    table = Table("latency", "to the fastest", "memory KiB", "stages", title=title)
    for column in table.columns:
        column.justify = "right"
    for point in front:
        seconds = point.schedule.latency
        table.add_row(
            f"{seconds * 1e3:.3f} ms",
            f"{seconds / front[0].schedule.latency:.3f}",
            kib(point.peak),
            str(len(point.schedule.stages)),
        )
    console().print(table)
