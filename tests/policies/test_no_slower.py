"""What searches over more find is never slower, whatever the costs and the limits."""

from __future__ import annotations

import itertools
import math
import random
import time
from collections.abc import Iterable, Iterator
from dataclasses import replace

import networkx as nx
import pytest
from hypothesis import given
from hypothesis import strategies as st

import tvm_ios.graph.blocks as blocks_module
from tests.fast_run import examples
from tests.ios.test_equal_branches import with_copies
from tests.random_dags import dags, graph_of
from tvm_ios.costs.costs import Costs
from tvm_ios.costs.model import CostModel
from tvm_ios.costs.named import costs_named
from tvm_ios.errors import MemoryBudgetError
from tvm_ios.graph.components import components
from tvm_ios.graph.op_graph import OpGraph, mask_of
from tvm_ios.ios.ending_space import Pruning
from tvm_ios.ios.lazy import Budget
from tvm_ios.ios.stage_memory import stages_peak
from tvm_ios.policies.greedy import greedy_schedule
from tvm_ios.policies.policy import Limits, Problem
from tvm_ios.progress import Progress
from tvm_ios.schedule.schedule import Schedule
from tvm_ios.schedule.stage import Stage
from tvm_ios.search import Search

#: What each policy must be as fast as.
_INCLUDES = {
    "ios-parallel": ("greedy",),
    "ios-both": ("greedy", "ios-merge", "ios-parallel"),
    "ios-holistic": ("greedy", "ios-merge", "ios-parallel", "ios-both"),
}
_POLICIES = ("ios-merge", *_INCLUDES)


class AnyCost:
    """Any seconds for any stage."""

    name = "any"

    def __init__(self, seed: int) -> None:
        self.seed = seed

    def stage_latency(self, graph: OpGraph, stage: Stage) -> float:
        return random.Random(f"{self.seed} {stage.strategy} {stage.mask}").uniform(0.01, 1)


class WorkCost:
    """Any seconds for what stages compute; the same for stages that are wired alike."""

    name = "work"

    def __init__(self, seed: int) -> None:
        self.seed = seed

    def stage_latency(self, graph: OpGraph, stage: Stage) -> float:
        wired = nx.Graph()
        for unit in stage.units:
            op = graph.operators[unit]
            wired.add_node(unit, kind=op.kind)
            for tensor in op.inputs:
                wired.add_edge(f"t{tensor}", unit, way="reads")
            for tensor in op.outputs:
                wired.add_edge(unit, f"t{tensor}", way="writes")
        for node in wired:
            wired.nodes[node].setdefault("kind", "tensor")
        key = nx.weisfeiler_lehman_graph_hash(wired, edge_attr="way", node_attr="kind")
        return random.Random(f"{self.seed} {stage.strategy} {key}").uniform(0.01, 1)


@st.composite
def wide_graphs(draw: st.DrawFn) -> OpGraph:
    """Units side by side, more than a stage may have groups; then a few that read any of them."""
    width = draw(st.integers(3, 7))
    predecessors = [0] * width
    for unit in range(width, width + draw(st.integers(0, 3))):
        predecessors.append(draw(st.integers(0, (1 << unit) - 1)))
    return graph_of(predecessors)


limits = st.builds(
    Limits,
    pruning=st.builds(Pruning, st.none() | st.integers(1, 3), st.none() | st.integers(1, 3)),
    reuse=st.just(False),
)


def cut(graph: OpGraph, max_block: int, most_states: int) -> Problem:
    """A problem whose blocks are small, and cut wherever they have many states."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(blocks_module, "MAX_STATES", most_states)
        problem = replace(
            Problem.of(graph, max_block),
            mergeable=lambda g, units: len({g.predecessors[u] for u in units}) == 1,
        )
        assert sum(problem.wide_blocks) == graph.all_operators
    return problem


def latency(searching: Search, policy: str) -> float:
    """Seconds of what a policy finds; infinite if nothing fits into the memory budget."""
    graph, model = searching.problem.units, searching.costs.stages
    assert model is not None
    if policy == "greedy":
        schedule: Schedule = greedy_schedule(graph)
        budget = searching.limits.memory_budget
        # It keeps to no budget: it counts if it fits by itself, and no error is made of it.
        if budget is not None and stages_peak(graph, schedule.stages) > budget:
            return math.inf
        return sum(model.stage_latency(graph, stage) for stage in schedule.stages)
    try:
        schedule = searching.find(policy).schedule
    except MemoryBudgetError:
        return math.inf
    schedule.validate(graph)
    budget = searching.limits.memory_budget
    assert budget is None or stages_peak(graph, schedule.stages) <= budget
    for stage, seconds in zip(schedule.stages, schedule.latencies, strict=True):
        assert seconds == model.stage_latency(graph, stage)
    return schedule.latency


def check(
    problem: Problem, costs: Costs, limits: Limits, *, together: bool, greedy: bool = True
) -> None:
    searches = [Search(problem, costs, limits) for _ in _POLICIES]
    # Greedy's stages cross the borders of blocks of different components: where two schedules of
    # these are alike to it, others need not be, unless they know of them.
    if together or len(components(problem.units)) > 1:
        searches = [searches[0]] * len(_POLICIES)
    found = {
        policy: latency(searching, policy)
        for policy, searching in zip(_POLICIES, searches, strict=True)
    }
    found["greedy"] = latency(searches[0], "greedy") if greedy else math.inf
    for policy, others in _INCLUDES.items():
        for other in others:
            if found[policy] == math.inf and other == "greedy":
                continue
            assert found[policy] <= found[other] * (1 + 1e-9), (policy, other)


graphs = st.one_of(dags(8).map(graph_of), wide_graphs())


@given(
    graphs,
    st.integers(0, 2**32),
    limits,
    st.integers(2, 10),
    st.integers(3, 100),
    st.none() | st.integers(0, 150),
    st.none() | st.just(0.0),
)
@examples(100)
def test_any_costs_and_limits(
    graph: OpGraph,
    seed: int,
    limits: Limits,
    max_block: int,
    most_states: int,
    memory_budget: int | None,
    time_limit: float | None,
) -> None:
    costs = replace(costs_named("v100"), stages=AnyCost(seed), branches_alike=False)
    limits = replace(limits, memory_budget=memory_budget, budget=Budget(time_limit=time_limit))
    check(cut(graph, max_block, most_states), costs, limits, together=False)


@given(graphs, st.integers(0, 2**32), limits, st.integers(0, 300), st.none() | st.integers(0, 150))
@examples(60)
def test_any_moment_at_which_time_is_up(
    graph: OpGraph, seed: int, limits: Limits, moment: int, memory_budget: int | None
) -> None:
    """Searches of one problem know what those before have found."""
    costs = replace(costs_named("v100"), stages=AnyCost(seed), branches_alike=False)
    budget = Budget(time_limit=float(moment))
    limits = replace(limits, memory_budget=memory_budget, budget=budget)
    problem, ticks = cut(graph, 5, 20), itertools.count()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(time, "perf_counter", lambda: float(next(ticks)))
        check(problem, costs, limits, together=True)


class AnyMeasuring:
    """Measured costs, of which bounds are known; each stage is measured by itself."""

    def __init__(self, cost: AnyCost) -> None:
        self.cost = cost

    def bounds(self, progress: Progress) -> CostModel:
        class Bounds(AnyCost):
            def stage_latency(self, graph: OpGraph, stage: Stage) -> float:
                part = random.Random(f"{stage.mask} {self.seed}").uniform(0.3, 1)
                return part * super().stage_latency(graph, stage)

        return Bounds(self.cost.seed)

    def stage_key(self, graph: OpGraph, stage: Stage) -> str:
        return f"{stage.strategy} {stage.mask}"

    def latencies(self, graph: OpGraph, stages: Iterable[Stage]) -> Iterator[float]:
        return (self.cost.stage_latency(graph, stage) for stage in stages)


@given(graphs, st.integers(0, 2**32), limits, st.none() | st.integers(0, 30))
@examples(60)
def test_measured_costs(
    graph: OpGraph, seed: int, limits: Limits, measurements: int | None
) -> None:
    """Greedy's stages are measured if they may matter, as long as the measurements last."""
    cost = AnyCost(seed)
    # No two blocks are equal: the costs go by the units' numbers.
    operators = (replace(op, kind=op.name) for op in graph.operators)
    graph = replace(graph, operators=tuple(operators))
    costs = replace(costs_named("v100"), stages=cost, measuring=AnyMeasuring(cost))
    limits = replace(limits, budget=Budget(max_measurements=measurements))
    limited = measurements is not None
    check(cut(graph, 5, 20), costs, limits, together=limited, greedy=not limited)


@given(with_copies(), st.integers(0, 2**32), limits, st.integers(3, 30))
@examples(60)
def test_equal_branches(graph: OpGraph, seed: int, limits: Limits, most_states: int) -> None:
    costs = replace(costs_named("v100"), stages=WorkCost(seed))
    check(cut(graph, 5, most_states), costs, replace(limits, reuse=True), together=False)


def chains(count: int, length: int) -> OpGraph:
    """Equal branches, and a unit that joins them."""
    units = count * length
    predecessors = [0 if unit % length == 0 else 1 << (unit - 1) for unit in range(units)]
    return graph_of([*predecessors, mask_of(range(length - 1, units, length))])


def test_too_many_equal_branches_are_cut() -> None:
    graph = chains(15, 4)
    assert len(Problem.of(graph, 40).wide_blocks) > 1
    # Equal branches count as one, but not those beyond what a machine word holds.
    assert Problem.of(chains(16, 3), 4).wide_blocks == (chains(16, 3).all_operators,)
    assert len(Problem.of(chains(16, 3), 3).wide_blocks) > 1
    assert len(Problem.of(chains(32, 2), 40).wide_blocks) > 1


def test_sixteen_equal_branches_are_one_block() -> None:
    graph = chains(16, 3)
    problem = Problem.of(graph, 40)
    assert len(problem.blocks) > 1
    assert problem.wide_blocks == (graph.all_operators,)
    limits = Limits(pruning=Pruning(3, 2))
    searching = Search(problem, costs_named("v100"), limits)
    statistics = searching.find("ios-both").statistics
    assert statistics is not None
    assert statistics.states == math.comb(16 + 3, 3) + 1
    assert latency(searching, "ios-both") <= latency(searching, "greedy") * (1 + 1e-9)
