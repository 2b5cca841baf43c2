"""The order in which stages run, where their costs do not decide it."""

from __future__ import annotations

from collections.abc import Sequence

from tvm_ios.graph.op_graph import OpGraph, bits
from tvm_ios.graph.topological import topological_order
from tvm_ios.schedule.schedule import Schedule
from tvm_ios.schedule.stage import Stage


def schedule_of_blocks(
    graph: OpGraph,
    stages: Sequence[Stage],
    latencies: Sequence[float],
    *,
    keep_order: bool,
) -> Schedule:
    """The schedule of all blocks' stages, in graph order unless the order was searched for."""
    if not keep_order:
        stages, latencies = in_graph_order(graph, stages, latencies)
    return Schedule(
        fingerprint=graph.fingerprint,
        stages=tuple(stages),
        policy="",
        batch=graph.batch,
        latencies=tuple(latencies),
    )


def in_graph_order(
    graph: OpGraph, stages: Sequence[Stage], latencies: Sequence[float]
) -> tuple[tuple[Stage, ...], tuple[float, ...]]:
    """Run each stage as early as its first unit stands in the graph, if its inputs allow it.

    A search that adds the latencies of stages is indifferent between orders; caches are not.
    Unrolled recurrent networks have all steps of a layer in a row, which read the same weights.

    Parameters
    ----------
    graph
        The graph of units.
    stages
        The stages in an order that can run.
    latencies
        The seconds of each stage.

    Returns
    -------
    tuple
        Stages and latencies in the new order.
    """
    stage_of = {unit: place for place, stage in enumerate(stages) for unit in stage.units}
    needs = [
        {stage_of[u] for unit in stage.units for u in bits(graph.predecessors[unit])} - {place}
        for place, stage in enumerate(stages)
    ]
    order = topological_order(needs, [min(stage.units) for stage in stages])
    return tuple(stages[p] for p in order), tuple(latencies[p] for p in order)
