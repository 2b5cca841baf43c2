from __future__ import annotations

import math
import random

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from tests.fast_run import examples
from tests.ios.brute_force import all_endings, all_schedules, best_cost, legal_stages
from tests.random_dags import dags, graph_of
from tests.refusals import refused
from tvm_ios.errors import SearchError
from tvm_ios.graph.op_graph import bits, mask_of
from tvm_ios.ios.block import Block
from tvm_ios.ios.counts import count_block
from tvm_ios.ios.dynamic_program import Groups, Solution, solve
from tvm_ios.ios.ending_space import Pruning
from tvm_ios.ios.priced_block import PricedBlock
from tvm_ios.policies.ios import IOS_POLICIES
from tvm_ios.schedule.stage import Stage, Strategy

prunings = st.builds(Pruning, st.none() | st.integers(1, 3), st.none() | st.integers(1, 3))


def check_stages(predecessors: tuple[int, ...], solution: Solution) -> None:
    """The stages cover every unit once, none before what it reads from."""
    done = 0
    for stage in solution.stages:
        assert not stage.mask & done
        done |= stage.mask
        assert all(not predecessors[unit] & ~done for unit in stage.units)
    assert done == (1 << len(predecessors)) - 1
    assert math.isclose(
        sum(stage.latency or 0.0 for stage in solution.stages), solution.cost, abs_tol=1e-12
    )


@given(dags(8), prunings, st.integers(0, 2**32), st.booleans())
@examples(80)
def test_equals_brute_force_over_all_schedules(
    predecessors: tuple[int, ...], pruning: Pruning, seed: int, ties: bool
) -> None:
    assume(count_block(predecessors).schedules <= 30_000)
    rng = random.Random(seed)
    table = [rng.randint(1, 4) if ties else rng.random() for _ in range(1 << len(predecessors))]
    asked: list[int] = []

    def stage(ending: int, groups: Groups) -> tuple[float, Strategy]:
        assert mask_of(u for group in groups for u in group) == ending
        asked.append(ending)
        return table[ending], Strategy.CONCURRENT

    solution = solve(predecessors, stage, pruning)
    endings = all_endings(predecessors, pruning.r, pruning.s)
    everything = (1 << len(predecessors)) - 1
    expected = best_cost(endings, everything, lambda ending: table[ending])
    assert math.isclose(solution.cost, expected, rel_tol=1e-9)
    assert len(asked) == len(set(asked)) == solution.endings
    assert solution.transitions == sum(map(len, endings.values()))
    check_stages(predecessors, solution)


class TableCost:
    """Random seconds for every stage, by its strategy and units."""

    name = "table"

    def __init__(self, seed: int) -> None:
        self.seed = seed

    def stage_latency(self, graph: object, stage: Stage) -> float:
        return random.Random(f"{self.seed} {stage.strategy} {stage.mask}").uniform(0.1, 1)


@given(dags(7), prunings, st.integers(0, 2**32), st.sampled_from(sorted(IOS_POLICIES)), st.data())
@examples(80)
def test_equals_brute_force_with_all_strategies(
    predecessors: tuple[int, ...], pruning: Pruning, seed: int, policy: str, data: st.DataObject
) -> None:
    assume(count_block(predecessors).schedules <= 30_000)
    graph = graph_of(predecessors)
    colours = data.draw(
        st.lists(st.integers(0, 1), min_size=len(predecessors), max_size=len(predecessors))
    )
    cost = TableCost(seed)
    allowed = {
        "ios-merge": {"merge"},
        "ios-parallel": {"concurrent"},
        "ios-both": {"concurrent", "merge"},
        "ios-holistic": {"concurrent", "merge", "co_schedule"},
    }[policy]

    def stages_of(ending: int) -> list[Stage]:
        alike = len({colours[u] for u in bits(ending)}) == 1
        single = {"concurrent"} if ending.bit_count() == 1 else set[str]()
        legal = legal_stages(predecessors, ending, alike)
        return [Stage(Strategy(s), g) for s, g in legal.items() if s in allowed | single]

    def stage_cost(ending: int) -> float:
        """Of an ending's legal stages the fastest."""
        return min((cost.stage_latency(graph, s) for s in stages_of(ending)), default=math.inf)

    solution = PricedBlock.of(
        graph,
        Block.of(graph, graph.all_operators),
        cost,
        IOS_POLICIES[policy].strategies,
        pruning,
        lambda _, units: len({colours[u] for u in units}) == 1,
    ).solve()
    endings = all_endings(predecessors, pruning.r, pruning.s)
    assert math.isclose(
        solution.cost, best_cost(endings, graph.all_operators, stage_cost), rel_tol=1e-9
    )
    for stage in solution.stages:
        assert stage in stages_of(stage.mask)
        assert stage.latency == cost.stage_latency(graph, stage)


@given(dags(8), prunings, st.integers(0, 2**32))
@examples(50)
def test_with_nothing_to_gain_the_schedule_is_sequential(
    predecessors: tuple[int, ...], pruning: Pruning, seed: int
) -> None:
    # In floating point the sums depend on their order: these are ties nevertheless.
    rng = random.Random(seed)
    alone = [rng.random() for _ in predecessors]
    solution = solve(
        predecessors,
        lambda _, groups: (sum(alone[u] for group in groups for u in group), Strategy.CONCURRENT),
        pruning,
    )
    assert [stage.groups for stage in solution.stages] == [
        ((unit,),) for unit in range(len(predecessors))
    ]


@given(dags(6), st.integers(0, 2**32))
@examples(40)
def test_of_equal_last_stages_the_smallest_is_kept(
    predecessors: tuple[int, ...], seed: int
) -> None:
    assume(count_block(predecessors).schedules <= 5_000)
    rng = random.Random(seed)
    table = [rng.randint(1, 3) for _ in range(1 << len(predecessors))]
    solution = solve(predecessors, lambda e, _: (table[e], Strategy.CONCURRENT))
    endings = all_endings(predecessors)
    everything = (1 << len(predecessors)) - 1
    fewest = min(
        plan[0].bit_count()
        for plan in all_schedules(endings, everything)
        if sum(table[stage] for stage in plan) == solution.cost
    )
    assert len(solution.stages[-1].units) == fewest


@pytest.mark.parametrize(
    ("dear", "kept"),
    [
        ((), Strategy.CONCURRENT),
        ((Strategy.CONCURRENT,), Strategy.MERGE),
        ((Strategy.CONCURRENT, Strategy.MERGE), Strategy.CO_SCHEDULE),
    ],
)
def test_equal_costs_prefer_the_simpler_strategy(
    dear: tuple[Strategy, ...], kept: Strategy
) -> None:
    graph = graph_of([0, 0])

    class Constant(TableCost):
        def stage_latency(self, graph: object, stage: Stage) -> float:
            return 9.0 if stage.strategy in dear else 1.0

    solution = PricedBlock.of(
        graph,
        Block.of(graph, 0b11),
        Constant(0),
        IOS_POLICIES["ios-holistic"].strategies,
        Pruning(),
        lambda *_: True,
    ).solve()
    assert [stage.strategy for stage in solution.stages] == [kept]


def test_the_paper_s_merge_then_concurrent_example() -> None:
    # IOS, figure 3.1: a and b merged, then {c, d} beside {e}; c and d are a chain.
    predecessors = [0, 0, 0b01, 0b0100, 0b10]

    def stage(ending: int, groups: Groups) -> tuple[float, Strategy]:
        if ending == 0b00011:
            return 1.0, Strategy.MERGE
        return (1.0 if ending == 0b11100 else 2.0 * len(groups)), Strategy.CONCURRENT

    solution = solve(predecessors, stage)
    assert solution.cost == 2.0
    assert solution.stages == (
        Stage(Strategy.MERGE, ((0,), (1,))),
        Stage(Strategy.CONCURRENT, ((2, 3), (4,))),
    )


@given(dags(6), st.integers(0, 2**32))
@examples(15)
def test_more_than_63_units(predecessors: tuple[int, ...], seed: int) -> None:
    chain = 62
    long = [1 << (u - 1) if u else 0 for u in range(chain)]
    long += [(mask << chain) | (1 << (chain - 1)) for mask in predecessors]
    rng = random.Random(seed)
    table = [rng.random() for _ in range(1 << len(predecessors))]
    pruning = Pruning(r=1)

    def stage(ending: int, _: Groups) -> tuple[float, Strategy]:
        tail = ending >> chain
        return (table[tail] if tail else 1.0), Strategy.CONCURRENT

    solution = solve(long, stage, pruning)
    small = solve(predecessors, lambda e, _: (table[e], Strategy.CONCURRENT), pruning)
    assert math.isclose(solution.cost, chain + small.cost)
    assert [s.mask >> chain for s in solution.stages[chain:]] == [s.mask for s in small.stages]


def test_a_block_that_cannot_run_is_an_error() -> None:
    with refused(SearchError, "infinite"):
        solve([0, 1], lambda *_: (math.inf, Strategy.CONCURRENT))


@pytest.mark.parametrize("latency", [-1.0, math.nan])
def test_a_latency_that_is_none_is_an_error(latency: float) -> None:
    with refused(SearchError, "negative"):
        solve([0, 1], lambda *_: (latency, Strategy.CONCURRENT))
