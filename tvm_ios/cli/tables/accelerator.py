"""An accelerator's plan as a table and as JSON."""

from __future__ import annotations

import sys
from collections import Counter, defaultdict

from rich.markup import escape
from rich.table import Table

from tvm_ios.cli.frame.output import console, print_json
from tvm_ios.files.byte_sizes import kib
from tvm_ios.graphturbo.cluster.engines import Engine
from tvm_ios.graphturbo.cluster.plan import AcceleratorPlan
from tvm_ios.graphturbo.cluster.spilling import Scope

#: The most instances that are shown; a caption has the number of all.
_SHOWN = 40


def print_plan(plan: AcceleratorPlan, tail: str | None, as_json: bool) -> None:
    """Print the plan of a cluster and its simulated time, and warn on stderr if it does not fit."""
    if plan.warning is not None:
        print(f"tvm-ios: {plan.warning}", file=sys.stderr)
    if as_json:
        print_json({**plan.to_json(), "cost": plan.device.name, "tail": tail})
        return
    out = console()
    out.print(_subgraphs(plan))
    out.print(_instances(plan))
    simulation, device = plan.simulation, plan.device
    tensors = ", ".join(f"{simulation.tensors[s]} in the {s.value}" for s in Scope)
    busy = ", ".join(
        f"{name} {simulation.usage(engine):.0%}"
        for engine, name in (
            (Engine.MATRIX, "matrix engines"),
            (Engine.VECTOR, "vector engines"),
            (Engine.GLOBAL, "global buffer"),
            (Engine.MEMORY, "memory"),
        )
    )
    out.print(
        f"batch {plan.batch} on {device.clusters} clusters of {escape(device.name)}, "
        f"{plan.graph.batch} each: {simulation.seconds * 1e3:.3f} ms simulated, "
        f"{plan.batch / simulation.seconds:,.0f} a second, {simulation.kernels} kernels, "
        f"{len(plan.program.moves)} moves between instances\n"
        f"tensors: {tensors}; busy: {busy}"
    )


def _subgraphs(plan: AcceleratorPlan) -> Table:
    table = Table("sub-graph", "layers", "first operator", "instances", "of axis", "runs", "tiles")
    table.title = f"{escape(plan.graph.name)}: sub-graphs"
    instances = plan.program.instances
    for number, subgraph in enumerate(plan.to_json()["subgraphs"]):
        layers = [layer for run in subgraph["runs"] for layer in run["layers"]]
        stitched = sum(len(run["layers"]) > 1 for run in subgraph["runs"])
        tiles = sorted(run["tiles"] for run in subgraph["runs"])
        table.add_row(
            str(number),
            str(len(layers)),
            escape(layers[0]["operators"][0]),
            str(instances.subgraphs[number].factor),
            "" if subgraph["axis"] is None else str(subgraph["axis"]),
            f"{len(subgraph['runs'])}, {stitched} stitched",
            f"{tiles[0]} to {tiles[-1]}",
        )
    return table


def _instances(plan: AcceleratorPlan) -> Table:
    order, program = plan.chosen.order, plan.program
    proven = ", the least" if order.proven else ""
    table = Table("instance", "cores", "output lies in", "moves before", "begin ms", "end ms")
    table.title = (
        f"{order.name} order, peak {kib(order.peak)} KiB{proven}; instances of at most "
        f"{kib(plan.chosen.capacity)} KiB"
    )
    spans = plan.spans()
    moves: defaultdict[int, Counter[str]] = defaultdict(Counter)
    for move in program.moves:
        moves[move.reader][move.movement.value] += 1
    for number in program.order[:_SHOWN]:
        instance = program.instances.instances[number]
        lies = {
            plan.simulation.scopes[number, t].value
            for t in instance.owned
            if (number, t) in plan.simulation.scopes
        }
        table.add_row(
            f"{instance.subgraph}.{instance.part}",
            " x ".join(map(str, program.bindings.bind[number])),
            ", ".join(sorted(lies)),
            ", ".join(f"{count} {kind}" for kind, count in moves[number].items()),
            f"{spans[number][0] * 1e3:.3f}",
            f"{spans[number][1] * 1e3:.3f}",
        )
    if len(program.order) > _SHOWN:
        table.caption = f"the first {_SHOWN} of {len(program.order)}: -o writes all"
    return table
