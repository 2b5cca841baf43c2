"""What IOS may do with a stage (IOS, section 4.2)."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from tvm_ios.graph.op_graph import OpGraph
from tvm_ios.schedule.stage import Stage, Strategy
from tvm_ios.schedule.waves import stage_of

#: Tells whether units can become one stacked operator.
Mergeable = Callable[[OpGraph, tuple[int, ...]], bool]


def candidate_stages(
    graph: OpGraph,
    groups: tuple[tuple[int, ...], ...],
    strategies: frozenset[Strategy],
    mergeable: Mergeable,
) -> tuple[Stage, ...]:
    """The stages that an ending can become, the simpler strategy first.

    Parameters
    ----------
    graph
        The graph of units.
    groups
        The ending's groups, with the graph's unit numbers.
    strategies
        What the policy allows.
    mergeable
        Asked only about two or more units with no edge between them.
    """
    stages: list[Stage] = []
    alone = len(groups) == 1 and len(groups[0]) == 1
    if alone or Strategy.CONCURRENT in strategies:
        stages.append(Stage(Strategy.CONCURRENT, groups))
    if Strategy.MERGE in strategies and len(groups) > 1 and max(map(len, groups)) == 1:
        units = tuple(sorted(group[0] for group in groups))
        if mergeable(graph, units):
            stages.append(Stage(Strategy.MERGE, tuple((unit,) for unit in units)))
    if Strategy.CO_SCHEDULE in strategies and not alone:
        stages.append(stage_of(Strategy.CO_SCHEDULE, groups, graph.predecessors))
    return tuple(stages)


def generate_stage(stages: tuple[Stage, ...], seconds: Iterable[float]) -> tuple[float, Strategy]:
    """The faster of an ending's stages (IOS, Algorithm 1, lines 23 to 33); the first of equals.

    Parameters
    ----------
    stages
        From :func:`candidate_stages`.
    seconds
        What each of them takes.

    Returns
    -------
    tuple of float and Strategy
        Seconds, ``inf`` if there is no stage.
    """
    best, strategy = float("inf"), Strategy.CONCURRENT
    for stage, latency in zip(stages, seconds, strict=False):
        if latency < best:
            best, strategy = latency, stage.strategy
    return best, strategy
