"""Fronts of latency and memory, and searches within a budget, against every schedule there is."""

from __future__ import annotations

import itertools
import math
import random
from collections.abc import Iterator, Sequence

from hypothesis import assume, given
from hypothesis import strategies as st

from tests.fast_run import examples
from tests.ios.brute_force import all_endings, all_schedules
from tests.random_dags import dags, graph_of
from tests.refusals import refused
from tvm_ios.errors import MemoryBudgetError
from tvm_ios.graph.elements import Tensor
from tvm_ios.graph.op_graph import OpGraph, bits
from tvm_ios.ios.counts import count_block
from tvm_ios.ios.ending_space import Pruning
from tvm_ios.ios.lazy import lazy_search
from tvm_ios.ios.memory_front import pareto_front
from tvm_ios.ios.network import search_graph
from tvm_ios.schedule.stage import Stage, Strategy

PARALLEL = frozenset({Strategy.CONCURRENT})
PRUNING = Pruning(2, 3)


class TableCost:
    """Seconds from 1 to 6 for every stage, so that there are ties."""

    name = "table"

    def __init__(self, seed: int) -> None:
        self.seed = seed

    def stage_latency(self, graph: object, stage: Stage) -> float:
        return random.Random(f"{self.seed} {stage.mask}").randint(1, 6)


def sized(graph: OpGraph, seed: int) -> OpGraph:
    """The same graph with tensors of 4 to 32 bytes; some are outputs too."""
    rng = random.Random(seed)
    tensors = tuple(Tensor(t.name, (1, rng.randint(1, 8))) for t in graph.tensors)
    unread = {t for t in range(len(tensors)) if not graph.consumers[t]} - set(graph.inputs)
    written = {t for op in graph.operators for t in op.outputs}
    outputs = sorted(unread | {t for t in written if rng.random() < 0.2})
    return OpGraph("sized", graph.operators, tensors, graph.inputs, tuple(outputs))


def peak(graph: OpGraph, stages: Sequence[Stage]) -> int:
    """The definition: what is live before a stage, and all that it makes, without ports."""
    ports = {*graph.inputs, *graph.outputs}
    done, largest = set[int](), 0
    for stage in stages:
        written = {t for unit in done for t in graph.operators[unit].outputs}
        live = {t for t in written if not set(graph.consumers[t]) <= done}
        live |= {t for unit in stage.units for t in graph.operators[unit].outputs}
        largest = max(largest, sum(graph.tensors[t].nbytes for t in live - ports))
        done |= set(stage.units)
    return largest


def every_schedule(graph: OpGraph, blocks: Sequence[int]) -> Iterator[list[Stage]]:
    """All schedules of concurrent stages, block by block."""
    choices: list[list[list[Stage]]] = []
    for block in blocks:
        units = list(bits(block))
        local = [
            sum(1 << units.index(p) for p in bits(graph.predecessors[unit] & block))
            for unit in units
        ]
        endings = all_endings(local, PRUNING.r, PRUNING.s)
        choices.append(
            [
                [
                    Stage(Strategy.CONCURRENT, tuple((units[u],) for u in bits(ending)))
                    for ending in reversed(plan)
                ]
                for plan in all_schedules(endings, (1 << len(units)) - 1)
            ]
        )
    for parts in itertools.product(*choices):
        yield [stage for part in parts for stage in part]


def front_of(pairs: set[tuple[float, int]]) -> list[tuple[float, int]]:
    return sorted(
        (latency, size)
        for latency, size in pairs
        if not any((o, p) != (latency, size) and o <= latency and p <= size for o, p in pairs)
    )


@st.composite
def problems(draw: st.DrawFn) -> tuple[OpGraph, list[int], TableCost]:
    predecessors = draw(dags(6))
    seed = draw(st.integers(0, 1000))
    # The costs go by the units' numbers, so no two blocks may be equal.
    kinds = [f"kind {unit}" for unit in range(len(predecessors))]
    graph = sized(graph_of(predecessors, kinds), seed)
    cut = draw(st.integers(0, len(graph)))
    first = (1 << cut) - 1
    blocks = [block for block in (first, graph.all_operators & ~first) if block]
    assume(count_block(predecessors).schedules <= 2000)
    return graph, blocks, TableCost(seed)


@given(problems())
@examples(120)
def test_the_front_is_that_of_all_schedules(problem: tuple[OpGraph, list[int], TableCost]) -> None:
    graph, blocks, cost = problem
    front = pareto_front(graph, blocks, cost, PARALLEL, PRUNING, lambda *_: False)
    for point in front:
        point.schedule.validate(graph)
        assert point.peak == peak(graph, point.schedule.stages)
    expected = front_of(
        {
            (sum(cost.stage_latency(graph, stage) for stage in stages), peak(graph, stages))
            for stages in every_schedule(graph, blocks)
        }
    )
    assert [(point.schedule.latency, point.peak) for point in front] == expected


@given(problems(), st.integers(0, 150))
@examples(80)
def test_searches_within_a_budget(
    problem: tuple[OpGraph, list[int], TableCost], budget: int
) -> None:
    """Both searches find the fastest schedule that fits, or say that there is none."""
    graph, blocks, cost = problem
    fitting = [
        sum(cost.stage_latency(graph, stage) for stage in stages)
        for stages in every_schedule(graph, blocks)
        if peak(graph, stages) <= budget
    ]

    def full() -> float:
        schedule, _ = search_graph(
            graph, blocks, cost, PARALLEL, PRUNING, lambda *_: False, memory_budget=budget
        )
        assert peak(graph, schedule.stages) <= budget
        return schedule.latency

    def lazy() -> float:
        schedule, statistics = lazy_search(
            graph,
            blocks,
            cost,
            lambda stages: (cost.stage_latency(graph, stage) for stage in stages),
            lambda _, stage: str(stage.mask),
            PARALLEL,
            PRUNING,
            lambda *_: False,
            memory_budget=budget,
        )
        assert statistics.complete
        assert peak(graph, schedule.stages) <= budget
        return schedule.latency

    for search in (full, lazy):
        if fitting:
            assert math.isclose(search(), min(fitting))
        else:
            with refused(MemoryBudgetError, "memory budget"):
                search()
