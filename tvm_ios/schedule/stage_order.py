"""Order stages where their costs do not decide."""

from __future__ import annotations

from collections.abc import Sequence

from tvm_ios.graph.op_graph import OpGraph, bits
from tvm_ios.graph.topological import topological_order
from tvm_ios.schedule.schedule import Schedule
from tvm_ios.schedule.stage import Stage


def schedule_of_blocks(graph: OpGraph, stages: Sequence[Stage], *, keep_order: bool) -> Schedule:
    """Return the schedule of all blocks' stages, in graph order unless ``keep_order``.

    ``keep_order`` is for an order that was itself searched for.
    """
    if not keep_order:
        stages = in_graph_order(graph, stages)
    return Schedule(graph.fingerprint, tuple(stages), policy="", batch=graph.batch)


def in_graph_order(graph: OpGraph, stages: Sequence[Stage]) -> tuple[Stage, ...]:
    """Return the stages sorted by first unit as far as dependencies allow.

    A search that adds latencies of stages is indifferent to their order, but caches are not: the
    steps of a layer in an unrolled recurrent network read the same weights.
    """
    stage_of = {unit: place for place, stage in enumerate(stages) for unit in stage.units}
    needs = [
        {stage_of[u] for unit in stage.units for u in bits(graph.predecessors[unit])} - {place}
        for place, stage in enumerate(stages)
    ]
    order = topological_order(needs, [min(stage.units) for stage in stages])
    return tuple(stages[p] for p in order)
