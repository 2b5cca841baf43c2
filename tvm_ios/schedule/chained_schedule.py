"""Which units of a schedule may be chains, and the schedule with some of them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import pairwise

from tvm_ios.graph.op_graph import OpGraph
from tvm_ios.schedule.chains import Chain, hands_on
from tvm_ios.schedule.placement import Placement
from tvm_ios.schedule.schedule import Schedule
from tvm_ios.schedule.stage import Stage, Strategy


def candidates(graph: OpGraph, stages: Sequence[Stage]) -> Iterator[tuple[int, int, int]]:
    """Pairs of units that may be a chain, each after the number of the stage of its second one.

    They follow one another in a group, or the groups are the only ones of two stages that follow
    one another.
    """
    before: tuple[int, ...] = ()
    for number, stage in enumerate(stages):
        if stage.strategy is not Strategy.CONCURRENT:
            before = ()
            continue
        for group in stage.groups:
            run = (*before, *group) if len(stage.groups) == 1 else group
            for first, second in pairwise(run):
                if second in group and hands_on(graph, first, second):
                    yield number, first, second
        before = stage.groups[0][-1:] if len(stage.groups) == 1 else ()


def with_chains(schedule: Schedule, chains: Iterable[Chain], seconds: float = 0.0) -> Schedule:
    """The schedule with chains; stages of one group that share one become one stage.

    Parameters
    ----------
    schedule
        A valid schedule without chains.
    chains
        Of pairs that :func:`candidates` gives.
    seconds
        What all of them together are expected to gain; taken off the stages in equal shares.
    """
    chains = tuple(sorted(chains))
    follower = {unit: chain[0] for chain in chains for unit in chain[1:]}
    stages: list[Stage] = []
    latencies: list[float] = []
    placements: dict[int, Placement] = {}
    for number, stage in enumerate(schedule.stages):
        if number in schedule.placements:
            placements[len(stages)] = schedule.placements[number]
        latency = schedule.latencies[number] if schedule.latencies else 0.0
        head = follower.get(stage.groups[0][0])
        if head is not None and stages and head in stages[-1].groups[0]:
            (before,), (group,) = stages[-1].groups, stage.groups
            stages[-1] = Stage(Strategy.CONCURRENT, ((*before, *group),))
            latencies[-1] += latency
        else:
            stages.append(stage)
            latencies.append(latency)
    total = sum(latencies)
    if total > 0:
        latencies = [latency * (1 - seconds / total) for latency in latencies]
    return replace(
        schedule,
        stages=tuple(stages),
        latencies=tuple(latencies) if schedule.latencies else (),
        placements=placements,
        chains=chains,
    )


def best_disjoint(gains: Mapping[tuple[int, int], float]) -> list[tuple[int, int]]:
    """Of pairs of units, each unit of which is the first of one pair and the second of another
    at most, those without common units whose gains are most in sum.
    """
    after = dict(gains.keys())
    followers = set(after.values())
    heads = [first for first in after if first not in followers]
    chosen: list[tuple[int, int]] = []
    for head in heads:
        best: list[tuple[float, list[tuple[int, int]]]] = [(0.0, []), (0.0, [])]
        unit = head
        while unit in after:
            pair = (unit, after[unit])
            taken = (best[-2][0] + gains[pair], [*best[-2][1], pair])
            best.append(max(best[-1], taken, key=lambda each: each[0]))
            unit = after[unit]
        chosen += best[-1][1]
    return sorted(chosen)
