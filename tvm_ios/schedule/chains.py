"""Chains: units of a group that one kernel computes together, tile by tile.

A unit's result is read only by the next unit of its chain, and never in memory as a whole.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

from tvm_ios.files.json_text import naturals
from tvm_ios.graph.op_graph import OpGraph
from tvm_ios.schedule.stage import Stage, Strategy

#: Numbers of units, in the order in which they run.
Chain = tuple[int, ...]


def hands_on(graph: OpGraph, first: int, second: int) -> bool:
    """Return whether only one other unit reads a unit's results, none of which is an output."""
    outputs = graph.operators[first].outputs
    readers = {reader for tensor in outputs for reader in graph.consumers[tensor]}
    return readers == {second} and not any(tensor in graph.outputs for tensor in outputs)


def fault_of(graph: OpGraph, stages: Sequence[Stage], chains: Sequence[Chain]) -> str | None:
    """Return the first rule that chains violate, in one sentence, or None."""
    groups = {
        unit: group
        for stage in stages
        if stage.strategy is Strategy.CONCURRENT
        for group in stage.groups
        for unit in group
    }
    seen: set[int] = set()
    for chain in chains:
        if len(chain) < 2:
            return "a chain has fewer than two units"
        for unit in chain:
            if unit not in groups:
                return f"a chain names unit {unit}, which is in no group of a concurrent stage"
            if unit in seen:
                return f"unit {graph.operators[unit].name!r} is in two chains"
            seen.add(unit)
        group = groups[chain[0]]
        begin = group.index(chain[0])
        names = " and ".join(repr(graph.operators[unit].name) for unit in chain)
        if group[begin : begin + len(chain)] != chain:
            return f"the units {names} of a chain do not follow one another in a group"
        for first, second in pairwise(chain):
            if not hands_on(graph, first, second):
                return (
                    f"the units {names} are no chain: what {graph.operators[first].name!r} makes "
                    "is not read by the next one alone"
                )
    return None


def from_json(data: Any) -> tuple[Chain, ...]:
    """Return the chains from the ``chains`` entry of a schedule file."""
    return tuple(map(naturals, data))
