"""The policy ``greedy``: every unit runs in the earliest stage it can run in (IOS, section 4.2)."""

from __future__ import annotations

from collections.abc import Sequence

from tvm_ios.graph.op_graph import OpGraph, bits
from tvm_ios.ios.block import cut_into_blocks
from tvm_ios.policies.policy import Found, Policy, Request
from tvm_ios.schedule.schedule import Schedule
from tvm_ios.schedule.stage import Stage, Strategy


def greedy_schedule(graph: OpGraph, blocks: Sequence[int] | None = None) -> Schedule:
    """Return the schedule whose stages hold all units that can run after the previous stages.

    ``blocks`` are bit sets of units in the order of execution, which no stage crosses; None for the
    whole graph as one block. Raise SearchError if they do not fit the graph.
    """
    masks = (graph.all_operators,) if blocks is None else tuple(blocks)
    cut_into_blocks(graph, masks)
    stages: list[Stage] = []
    for mask in masks:
        wave: dict[int, int] = {}
        waves: dict[int, list[int]] = {}
        for unit in bits(mask):
            sources = bits(graph.predecessors[unit] & mask)
            wave[unit] = 1 + max((wave[source] for source in sources), default=-1)
            waves.setdefault(wave[unit], []).append(unit)
        for _, ready in sorted(waves.items()):
            stages.append(Stage(Strategy.CONCURRENT, tuple((unit,) for unit in ready)))
    return Schedule(graph.fingerprint, tuple(stages), policy="greedy", batch=graph.batch)


def find(request: Request) -> Found:
    """Return the greedy schedule of the whole graph."""
    return Found(greedy_schedule(request.problem.units))


GREEDY = Policy("greedy", "all units that can run now side by side, again and again", find)
