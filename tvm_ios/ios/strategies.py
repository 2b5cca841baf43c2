"""The policies of IOS, and what each may do with a stage (IOS, section 4.2).

``ios-holistic`` searches over Rammer's co-scheduling (section 3.3 there) as a third strategy.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType

from tvm_ios.costs.model import CostModel
from tvm_ios.errors import SearchError
from tvm_ios.graph.op_graph import OpGraph
from tvm_ios.schedule.schedule import Stage, Strategy
from tvm_ios.schedule.waves import stage_of

#: Tells whether units can become one stacked operator.
Mergeable = Callable[[OpGraph, tuple[int, ...]], bool]

#: Whatever a policy allows, a single unit is always a legal concurrent stage.
POLICIES: Mapping[str, frozenset[Strategy]] = MappingProxyType(
    {
        "ios-merge": frozenset({Strategy.MERGE}),
        "ios-parallel": frozenset({Strategy.CONCURRENT}),
        "ios-both": frozenset({Strategy.CONCURRENT, Strategy.MERGE}),
        "ios-holistic": frozenset(Strategy),
    }
)

#: Policies that split a batch into instances; ``holistic`` chooses from all policies, block by
#: block. Only whole programs show what that gains.
GRAPHTURBO, HOLISTIC = "graphturbo", "holistic"


def strategies_of(policy: str) -> frozenset[Strategy]:
    """The strategies that a policy searches over.

    Raises
    ------
    SearchError
        If there is no such policy.
    """
    if policy in (GRAPHTURBO, HOLISTIC):
        raise SearchError(
            f"the policy {policy!r} compares whole programs, which only measuring on this "
            "machine's CPU does: give --cost measured, or choose ios-both"
        )
    if policy not in POLICIES:
        raise SearchError(
            f"there is no policy {policy!r} to search with: use {', '.join(POLICIES)}"
        )
    return POLICIES[policy]


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
    if Strategy.MERGE in strategies and len(groups) > 1 and all(len(g) == 1 for g in groups):
        units = tuple(sorted(group[0] for group in groups))
        if mergeable(graph, units):
            stages.append(Stage(Strategy.MERGE, tuple((unit,) for unit in units)))
    if Strategy.CO_SCHEDULE in strategies and not alone:
        stages.append(stage_of(Strategy.CO_SCHEDULE, groups, graph.predecessors))
    return tuple(stages)


def generate_stage(
    graph: OpGraph, cost: CostModel, stages: tuple[Stage, ...]
) -> tuple[float, Strategy]:
    """The faster of an ending's stages (IOS, Algorithm 1, lines 23 to 33); the first of equals.

    Returns
    -------
    tuple of float and Strategy
        Seconds, ``inf`` if there is no stage.
    """
    best, strategy = float("inf"), Strategy.CONCURRENT
    for stage in stages:
        latency = cost.stage_latency(graph, stage)
        if latency < best:
            best, strategy = latency, stage.strategy
    return best, strategy
