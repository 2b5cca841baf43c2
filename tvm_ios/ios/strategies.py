"""The strategies that IOS can give a stage (IOS, section 4.2)."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from tvm_ios.graph.op_graph import OpGraph
from tvm_ios.schedule.stage import Stage, Strategy
from tvm_ios.schedule.waves import stage_of

#: Returns whether units can be merged into one operator.
Mergeable = Callable[[OpGraph, tuple[int, ...]], bool]


def candidate_stages(
    graph: OpGraph,
    groups: tuple[tuple[int, ...], ...],
    strategies: frozenset[Strategy],
    mergeable: Mergeable,
) -> tuple[Stage, ...]:
    """Return the stages that an ending can become, the simpler strategy first.

    ``groups`` have the graph's unit numbers. ``mergeable`` is asked only about two or more units
    with no edge between them.
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
    """Return the seconds and strategy of an ending's fastest stage; of equal ones the first.

    This is IOS, Algorithm 1, lines 23 to 33. Seconds are ``inf`` if there is no stage.
    """
    best, strategy = float("inf"), Strategy.CONCURRENT
    for stage, latency in zip(stages, seconds, strict=False):
        if latency < best:
            best, strategy = latency, stage.strategy
    return best, strategy
