"""Which units of a schedule may be chains, and the schedule with some of them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import pairwise

from tvm_ios.graph.op_graph import OpGraph
from tvm_ios.schedule.chains import Chain, hands_on
from tvm_ios.schedule.placement import Placement
from tvm_ios.schedule.schedule import Schedule
from tvm_ios.schedule.stage import Stage, Strategy


def candidates(graph: OpGraph, stages: Sequence[Stage]) -> Iterator[tuple[int, int, int]]:
    """Pairs of units that may be a chain, each after the number of the stage of its second one.

    They are in a group, or in stages of one group with none but such between them. As nothing but
    the second one reads what the first one makes, whatever is between them may run before both.
    """
    run: set[int] = set()
    for number, stage in enumerate(stages):
        single = stage.strategy is Strategy.CONCURRENT and len(stage.groups) == 1
        if not single:
            run = set()
        if stage.strategy is not Strategy.CONCURRENT:
            continue
        for group in stage.groups:
            near = run | set(group)
            for second in group:
                makers = {graph.producer[tensor] for tensor in graph.operators[second].inputs}
                for first in sorted(maker for maker in makers if maker is not None):
                    if first in near and hands_on(graph, first, second):
                        yield number, first, second
        if single:
            run |= set(stage.units)


def possible_chains(
    graph: OpGraph, stages: Sequence[Stage], kernels: Callable[[Chain], int]
) -> Iterator[tuple[int, Chain]]:
    """Chains of which a kernel computes what several units do, each after its last one's stage.

    They are pairs, and those with a unit before them that needs no kernel of its own.

    Parameters
    ----------
    graph, stages
        As of :func:`candidates`.
    kernels
        Of how many kernels a chain is; 0 if none of them computes what several units do.
    """
    pairs = list(candidates(graph, stages))
    before: dict[int, list[int]] = {}
    for _, first, second in pairs:
        before.setdefault(second, []).append(first)
    for number, *pair in pairs:
        grown = [chain] if kernels(chain := (pair[0], pair[1])) else list[Chain]()
        while grown:
            chain = grown.pop()
            yield number, chain
            longer = ((first, *chain) for first in before.get(chain[0], ()))
            grown += [each for each in longer if 0 < kernels(each) <= kernels(chain)]


def with_chains(schedule: Schedule, chains: Iterable[Chain], seconds: float = 0.0) -> Schedule:
    """The schedule with chains; stages of one group that share one become one stage.

    Units of a chain run where its last one did.

    Parameters
    ----------
    schedule
        A valid schedule without chains.
    chains
        Of pairs that :func:`candidates` gives, which may follow on one another.
    seconds
        What all of them together are expected to gain; taken off the stages in equal shares.
    """
    chains = tuple(sorted(chains))
    stage_of = {
        unit: number for number, stage in enumerate(schedule.stages) for unit in stage.units
    }
    joined = {
        number
        for chain in chains
        for number in range(stage_of[chain[0]] + 1, stage_of[chain[-1]] + 1)
    }
    chain_of = {unit: chain for chain in chains for unit in chain}
    stages: list[Stage] = []
    latencies: list[float] = []
    placements: dict[int, Placement] = {}
    for number, stage in enumerate(schedule.stages):
        if number in schedule.placements:
            placements[len(stages)] = schedule.placements[number]
        latency = schedule.latencies[number] if schedule.latencies else 0.0
        if number in joined:
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
        stages=tuple(_together(stage, chain_of) for stage in stages),
        latencies=tuple(latencies) if schedule.latencies else (),
        placements=placements,
        chains=chains,
    )


def _together(stage: Stage, chain_of: Mapping[int, Chain]) -> Stage:
    """A stage, in whose groups the units of a chain follow one another."""
    if not any(unit in chain_of for unit in stage.units):
        return stage

    def ordered(group: Sequence[int]) -> Iterator[int]:
        for unit in group:
            chain = chain_of.get(unit, (unit,))
            if unit == chain[-1]:
                yield from chain

    return replace(stage, groups=tuple(tuple(ordered(group)) for group in stage.groups))


def best_disjoint(gains: Mapping[Chain, float]) -> list[Chain]:
    """Of chains those without common units whose gains are most in sum.

    Units are numbered in topological order, and hand on to one unit at most.
    """
    ending: dict[int, list[Chain]] = {}
    feeding: dict[int, set[int]] = {}
    for chain in gains:
        ending.setdefault(chain[-1], []).append(chain)
        for first, second in pairwise(chain):
            feeding.setdefault(second, set()).add(first)
    fed = {unit for units in feeding.values() for unit in units}

    #: For each unit the best of those chains that end with it or with what leads to it.
    best: dict[int, tuple[float, list[Chain]]] = {}

    def together(units: Iterable[int], *chains: Chain) -> tuple[float, list[Chain]]:
        parts = [best[unit] for unit in units]
        total = sum(gains[chain] for chain in chains) + sum(gain for gain, _ in parts)
        return total, [*chains, *(chain for _, some in parts for chain in some)]

    for unit in sorted(fed | feeding.keys()):
        options = [together(feeding.get(unit, ()))]
        for chain in ending.get(unit, ()):
            before = set[int]().union(*(feeding.get(each, set()) for each in chain)) - {*chain}
            options.append(together(before, chain))
        best[unit] = max(options, key=lambda option: option[0])
    return sorted(together(feeding.keys() - fed)[1])
