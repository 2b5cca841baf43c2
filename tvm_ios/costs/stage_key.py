"""Keys of stages: stages with equal keys need only one measurement."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable

from tvm_ios.graph.op_graph import OpGraph
from tvm_ios.schedule.stage import Stage


def stage_key(
    graph: OpGraph, stage: Stage, unit_key: Callable[[OpGraph, int], str], conditions: str
) -> str:
    """Return a hash of a stage's strategy, units, wiring and the conditions of measurement.

    Wiring says which units read each other's outputs or the same tensors; where tensors come from
    outside the stage does not matter. The order of the groups matters only where their units differ
    in nothing but their wiring: such stages may be measured twice.

    ``unit_key`` names the code of a unit, e.g. by its kernels. ``conditions`` are whatever else a
    latency depends on: lanes, warm or flushed caches.
    """
    keyed = sorted(([unit_key(graph, unit) for unit in group], group) for group in stage.groups)
    seen: dict[int, int] = {}
    groups: list[object] = []
    for keys, group in keyed:
        wires = [
            [seen.setdefault(t, len(seen)) for t in (*op.inputs, *op.outputs)]
            for op in (graph.operators[unit] for unit in group)
        ]
        groups.append([keys, wires])
    # Streams, unlike groups, wait for each other: there the order of launches counts too.
    place = {unit: number for number, unit in enumerate(u for _, group in keyed for u in group)}
    launched = [[place[unit] for unit in stage.order]] if stage.order else []
    text = json.dumps([stage.strategy.value, groups, conditions, *launched])
    return hashlib.sha256(text.encode()).hexdigest()
