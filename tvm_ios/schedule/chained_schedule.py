"""Find the units of a schedule that may form chains, and add chains to a schedule."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import pairwise

from tvm_ios.graph.op_graph import OpGraph
from tvm_ios.schedule.chains import Chain, hands_on
from tvm_ios.schedule.schedule import Schedule
from tvm_ios.schedule.stage import Stage, Strategy


def candidates(graph: OpGraph, stages: Sequence[Stage]) -> Iterator[tuple[int, int, int]]:
    """Yield pairs of units that may be a chain, after the stage number of the second one.

    Both are in one group, or in successive stages of one group each. Only the second reads the
    first's results, so whatever is between them can run before both.
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
    """Yield chains that a kernel can compute, each after the stage number of its last unit.

    These are pairs, and longer chains that need no more kernels. ``kernels`` returns the number of
    kernels of a chain, 0 if no kernel computes several of its units.
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
    """Return the schedule with chains, whose units run where the chain's last one did.

    Stages of one group that share a chain become one stage. The schedule is valid and has no
    chains; ``chains`` consist of pairs from :func:`candidates`. ``seconds``, the expected gain of
    all chains, is deducted from the stages in proportion to their latencies.
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
    for number, stage in enumerate(schedule.stages):
        if number in joined:
            (before,), (group,) = stages[-1].groups, stage.groups
            latencies = stages[-1].latency, stage.latency
            latency = None if None in latencies else sum(filter(None, latencies))
            stages[-1] = Stage(Strategy.CONCURRENT, ((*before, *group),), latency=latency)
        else:
            stages.append(stage)
    stages = [_together(stage, chain_of) for stage in stages]
    chained = replace(schedule, stages=tuple(stages), chains=chains)
    total = chained.latency
    if total <= 0:
        return chained
    return chained.with_latencies([x * (1 - seconds / total) for x in chained.latencies])


def _together(stage: Stage, chain_of: Mapping[int, Chain]) -> Stage:
    """Return a stage with the units of each chain next to each other in their group."""
    if not any(unit in chain_of for unit in stage.units):
        return stage

    def ordered(group: Sequence[int]) -> Iterator[int]:
        for unit in group:
            chain = chain_of.get(unit, (unit,))
            if unit == chain[-1]:
                yield from chain

    return replace(stage, groups=tuple(tuple(ordered(group)) for group in stage.groups))


def best_disjoint(gains: Mapping[Chain, float]) -> list[Chain]:
    """Return the chains without common units that have the largest total gain.

    Units are numbered in topological order, and each is followed by at most one unit in chains.
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
