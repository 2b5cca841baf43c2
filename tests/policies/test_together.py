"""The policy ``together`` beside all ways to pair the stages of two components."""

from __future__ import annotations

import itertools
import random
from collections.abc import Iterable, Iterator
from functools import cache

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.fast_run import examples
from tests.random_dags import graph_of
from tvm_ios.costs.costs import Costs, Offer
from tvm_ios.costs.model import CostModel
from tvm_ios.costs.named import costs_named
from tvm_ios.graph.blocks import cut_blocks
from tvm_ios.graph.components import components
from tvm_ios.graph.op_graph import OpGraph, bits, mask_of
from tvm_ios.ios.lazy import Budget
from tvm_ios.models.load import load_graph
from tvm_ios.models.source import ModelSource
from tvm_ios.policies.policy import Limits, Problem
from tvm_ios.policies.registry import tried_policies
from tvm_ios.progress import Progress
from tvm_ios.schedule.stage import Stage, Strategy
from tvm_ios.search import Search


class InCompany:
    """A group takes what its units take; groups side by side disturb each other at random."""

    name = "in company"

    def __init__(self, seed: int, disturbed: float = 1.2) -> None:
        self.seed, self.disturbed = seed, disturbed

    def stage_latency(self, graph: OpGraph, stage: Stage) -> float:
        longest = max(sum(self._drawn(1 << u, 0.01, 1) for u in group) for group in stage.groups)
        if len(stage.groups) == 1:
            return longest
        return longest * (1 + self._drawn(stage.mask, 0, self.disturbed))

    def _drawn(self, mask: int, low: float, high: float) -> float:
        return random.Random(f"{self.seed} {mask}").uniform(low, high)


class Measuring:
    """Measures such costs; the bounds know of no disturbance."""

    def __init__(self, cost: InCompany) -> None:
        self.cost = cost
        self.measured: list[Stage] = []

    def bounds(self, progress: Progress) -> CostModel:
        return InCompany(self.cost.seed, 0)

    def stage_key(self, graph: OpGraph, stage: Stage) -> str:
        return str(stage)

    def latencies(self, graph: OpGraph, stages: Iterable[Stage]) -> Iterator[float]:
        for stage in stages:
            self.measured.append(stage)
            yield self.cost.stage_latency(graph, stage)


@st.composite
def connected(draw: st.DrawFn, most: int = 5) -> list[int]:
    """Predecessor masks of units that have all to do with each other."""
    count = draw(st.integers(1, most))
    return [draw(st.integers(1, (1 << unit) - 1)) if unit else 0 for unit in range(count)]


@st.composite
def unions(draw: st.DrawFn, parts: int) -> OpGraph:
    predecessors: list[int] = []
    for _ in range(parts):
        at = len(predecessors)
        predecessors += [mask << at for mask in draw(connected())]
    # No two blocks are equal: the costs go by the units' numbers.
    return graph_of(predecessors, [f"kind{unit}" for unit in range(len(predecessors))])


def costs_of(cost: InCompany, *, measured: bool) -> Costs:
    measuring = Measuring(cost) if measured else None
    return Costs("any", "", cost, measuring)


def of_part(stages: Iterable[Stage], part: int) -> list[Stage]:
    found = (Stage(s.strategy, tuple(g for g in s.groups if mask_of(g) & part)) for s in stages)
    return [stage for stage in found if stage.groups]


def cheapest(
    graph: OpGraph, cost: InCompany, left: list[Stage], right: list[Stage], most: int
) -> float:
    """The least sum of seconds of all ways through two sequences."""

    def units(stages: list[Stage]) -> tuple[int, ...]:
        return tuple(unit for stage in stages for unit in stage.units)

    @cache
    def rest(i: int, j: int) -> float:
        if (i, j) == (len(left), len(right)):
            return 0.0
        ways = [cost.stage_latency(graph, s) + rest(i + 1, j) for s in left[i : i + 1]]
        ways += [cost.stage_latency(graph, s) + rest(i, j + 1) for s in right[j : j + 1]]
        for k, q in itertools.product(range(1, len(left) - i + 1), range(1, len(right) - j + 1)):
            whole = (i, j) == (0, 0) and (k, q) == (len(left), len(right))
            if max(k, q) > most and not whole:
                continue
            groups = (units(left[i : i + k]), units(right[j : j + q]))
            if k == q == 1:
                groups = left[i].groups + right[j].groups
            stage = Stage(Strategy.CONCURRENT, groups)
            ways.append(cost.stage_latency(graph, stage) + rest(i + k, j + q))
        return min(ways)

    return rest(0, 0)


@given(unions(2), st.integers(0, 2**32), st.booleans())
@examples(100)
def test_no_way_to_pair_stages_is_cheaper(graph: OpGraph, seed: int, measured: bool) -> None:
    cost = InCompany(seed)
    costs = costs_of(cost, measured=measured)
    search = Search(Problem.of(graph, 4), costs, Limits(budget=Budget()))
    apart = search.find("ios-both").schedule
    found = search.find("together")
    found.schedule.validate(graph)
    for stage, seconds in zip(found.schedule.stages, found.schedule.latencies, strict=True):
        assert seconds == cost.stage_latency(graph, stage)
    left, right = (of_part(apart.stages, part) for part in components(graph))
    # Beginnings and ends may be longer where stages are measured: five units at most are.
    best = cheapest(graph, cost, left, right, 5 if measured else 3)
    assert found.schedule.latency == pytest.approx(min(best, apart.latency))
    assert found.statistics is not None
    assert found.statistics.complete


@given(
    unions(3), st.integers(0, 2**32), st.booleans(), st.integers(0, 8), st.sampled_from([0, 0.1])
)
@examples(60)
def test_it_is_never_slower_than_one_after_another(
    graph: OpGraph, seed: int, measured: bool, measurements: int, gap: float
) -> None:
    costs = costs_of(InCompany(seed), measured=measured)
    budget = Budget(max_measurements=measurements, gap=gap)
    search = Search(Problem.of(graph, 4), costs, Limits(budget=budget))
    found = search.find("together").schedule
    found.validate(graph)
    assert found.latency <= search.find("ios-both").schedule.latency * (1 + 1e-9)


def test_what_is_connected_is_not_paired() -> None:
    graph = graph_of([0, 1, 1])
    search = Search(Problem.of(graph, 4), costs_of(InCompany(0), measured=False), Limits())
    found = search.find("together")
    assert found.why_not
    assert found.schedule.stages == search.find("ios-both").schedule.stages


def test_optimize_tries_it_for_several_components() -> None:
    apart, joined = graph_of([0, 1, 0]), graph_of([0, 1, 3])
    assert "together" in tried_policies({Offer.STAGES}, apart)[0]
    assert "together" not in tried_policies({Offer.STAGES}, joined)[0]
    assert "together" not in tried_policies({Offer.STAGES})[0]


@given(st.lists(connected(3), min_size=1, max_size=4), st.randoms())
@examples(40)
def test_components(parts: list[list[int]], order: random.Random) -> None:
    """Units of several graphs in any order that their edges allow."""
    masks: dict[tuple[int, int], int] = {}
    queues = [list(enumerate(part)) for part in parts]
    numbered: list[tuple[int, int]] = []
    while any(queues):
        at = order.choice([n for n, queue in enumerate(queues) if queue])
        unit, mask = queues[at].pop(0)
        place = {key: number for number, key in enumerate(numbered)}
        masks[at, unit] = mask_of(place[at, source] for source in bits(mask))
        numbered.append((at, unit))
    graph = graph_of([masks[key] for key in numbered])
    expected = {
        mask_of(n for n, (part, _) in enumerate(numbered) if part == at) for at in range(len(parts))
    }
    assert set(components(graph)) == expected
    assert sorted(components(graph), key=lambda mask: mask & -mask) == list(components(graph))


def test_blocks_of_models_together_are_those_of_each() -> None:
    names = ["inception_v3", "squeezenet"]
    graph = load_graph(ModelSource.together(names))
    sizes = [mask.bit_count() for name in names for mask in cut_blocks(load_graph(name))]
    assert [mask.bit_count() for mask in cut_blocks(graph)] == sizes


def test_a_device_that_one_model_does_not_fill_runs_two_in_less_time() -> None:
    graph = load_graph(ModelSource.together(["squeezenet", "mobilenet_v2"]))
    search = Search(Problem.of(graph, 40), costs_named("v100"), Limits())
    found = search.find("together").schedule
    found.validate(graph)
    assert found.latency < 0.95 * search.find("ios-both").schedule.latency
