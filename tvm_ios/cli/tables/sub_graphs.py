"""The coarse sub-graphs of a model, as a table and as JSON."""

from __future__ import annotations

from rich.markup import escape
from rich.table import Table

from tvm_ios.cli.frame.output import console, print_json
from tvm_ios.files.byte_sizes import kib
from tvm_ios.graph.op_graph import OpGraph, bits
from tvm_ios.graph.units import form_units
from tvm_ios.graphturbo.policy import choose_instances


def print_sub_graphs(
    graph: OpGraph, capacity: int, lanes: int, tail: str | None, as_json: bool
) -> None:
    """Split a graph of operators into instances for a CPU's lanes, and print its sub-graphs.

    ``capacity`` is the bytes that an instance may take; ``tail`` is a sentence on the end of the
    model that is not in the graph.
    """
    units = form_units(graph)
    instances = choose_instances(graph, units, lanes=lanes, capacity=capacity)
    rows: list[tuple[list[str], int, int | None, int]] = []
    for number, subgraph in enumerate(instances.subgraphs):
        names = [units.operators[unit].name for unit in bits(subgraph.layers)]
        peak = max(i.work.peak for i in instances.instances if i.subgraph == number)
        axis = subgraph.split.axis if subgraph.split and subgraph.factor > 1 else None
        rows.append((names, subgraph.factor, axis, peak))
    if as_json:
        subgraphs = [
            {"units": names, "factor": factor, "axis": axis, "peak_bytes": peak}
            for names, factor, axis, peak in rows
        ]
        settings = {
            "model": units.name,
            "tail": tail,
            "batch": units.batch,
            "lanes": lanes,
            "capacity": capacity,
        }
        print_json({**settings, "subgraphs": subgraphs, "instances": len(instances)})
        return
    table = Table("sub-graph", "units", "first", "last", "instances", "of axis", "peak of one")
    table.title = f"{escape(units.name)}, batch {units.batch}, {lanes} lanes, {kib(capacity)} KiB"
    for number, (names, factor, axis, peak) in enumerate(rows):
        table.add_row(
            str(number),
            str(len(names)),
            escape(names[0]),
            escape(names[-1]),
            str(factor),
            "" if axis is None else str(axis),
            f"{kib(peak)} KiB",
        )
    console().print(table)
