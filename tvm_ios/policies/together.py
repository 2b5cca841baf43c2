"""The policy ``together``: independent models in one graph, side by side.

Each component of the graph has the stages that ``ios-both`` finds for it. A dynamic program then
decides which stages of one run beside which of another (:mod:`tvm_ios.policies.stage_pairs`), on
lanes of their own, and which alone on all lanes. A third component joins the result of the two that
take the longest, and so on.
"""

from __future__ import annotations

import math
import statistics
import time
from collections.abc import Iterable, Sequence
from dataclasses import replace
from functools import partial, reduce
from itertools import product

import numpy as np

from tvm_ios.costs.costs import Offer
from tvm_ios.costs.model import stage_latencies
from tvm_ios.graph.components import components
from tvm_ios.ios.statistics import SearchStatistics
from tvm_ios.policies.ios import IOS_BOTH
from tvm_ios.policies.policy import Found, Policy, Request
from tvm_ios.policies.sequential import sequential_schedule
from tvm_ios.policies.stage_pairs import Seconds, StagePairs, Step
from tvm_ios.schedule.stage import Stage, Strategy, sequential_stages

#: The most stages of one component in a step, and the most costs of steps in memory.
_STAGES, _COSTS = 16, 8_000_000
#: The same limits where a cost model computes the cost of each step.
_PRICED_STAGES, _PRICED = 3, 60_000

Stages = tuple[Stage, ...]
Way = tuple[Step, ...]


def find(request: Request) -> Found:
    """Return the stages of all components, side by side where that is faster."""
    graph = request.problem.units
    apart = request.found(IOS_BOTH.name).schedule
    parts = components(graph)
    if len(parts) < 2:
        return Found(apart, why_not="not searched: all units are connected")
    prices = _Prices(request, apart.stages, apart.latencies)
    if prices.lanes == 1:
        return Found(apart, why_not="not searched: on one lane nothing runs side by side")
    sequences = [_of_part(apart.stages, part) for part in parts]
    prices.ask(stage for sequence in sequences for stage in sequence)
    sequences.sort(key=prices.sum, reverse=True)
    stages = reduce(partial(_paired, prices), sequences)
    if prices.sum(stages) >= apart.latency:
        # The stages of ios-both may combine units of several components, and be the fastest.
        stages = apart.stages
    schedule = request.problem.schedule(stages)
    latencies = tuple(prices.seconds[stage] for stage in stages)
    return Found(schedule.with_latencies(latencies), prices.counted())


class _Prices:
    """The seconds of stages, few of them measured; those of some are given at the start."""

    def __init__(self, request: Request, stages: Stages, latencies: Sequence[float]) -> None:
        self._begin = time.perf_counter()
        self._request = request
        self.graph = request.problem.units
        self.measuring = request.costs.measuring
        self.seconds = dict(zip(stages, latencies, strict=True))
        self.candidates = self.rounds = self._measured = 0
        self.complete = True
        #: For each unit its seconds on 1, 2, ... lanes, no more on more of them.
        self._on_lanes = self._seconds_on_lanes()

    @property
    def gap(self) -> float:
        """The part of the time that is too small to measure for."""
        return self._request.limits.budget.gap

    @property
    def lanes(self) -> int:
        """The number of lanes that units were measured on; two where that is not known."""
        return self._on_lanes.shape[1]

    def sum(self, stages: Iterable[Stage]) -> float:
        """Return the total seconds of stages that were asked for."""
        return sum(self.seconds[stage] for stage in stages)

    def ask(self, stages: Iterable[Stage]) -> None:
        """Ask for the seconds of stages that are not known yet, and remember them."""
        unknown = list(dict.fromkeys(stage for stage in stages if stage not in self.seconds))
        if self.measuring is not None:
            asked = self.measuring.latencies(self.graph, unknown)
            self._measured += len(unknown)
        else:
            asked = stage_latencies(self._request.stages, self.graph, unknown)
        self.seconds |= zip(unknown, map(float, asked), strict=True)

    def measure_some(self, stages: Sequence[Stage]) -> None:
        """Measure stages as long as the budget lasts."""
        budget = self._request.limits.budget
        self.rounds += 1
        for done, stage in enumerate(dict.fromkeys(stages)):
            if stage in self.seconds:
                continue
            if budget.is_spent(self._measured, time.perf_counter() - self._begin):
                self.complete = False
                return
            self.ask([stage])
            self._request.progress("together: measuring stages", done + 1, len(stages))

    def table(self, stage: Stage) -> Seconds:
        """Return the seconds of a stage's units one after another on 1, 2, ... lanes."""
        return self._on_lanes[list(stage.units)].sum(axis=0)

    def bound(self, stage: Stage) -> float:
        """Return a lower bound of the seconds of a stage."""
        request, measuring = self._request, self.measuring
        model = request.stages if measuring is None else measuring.bounds(request.progress)
        return model.stage_latency(self.graph, stage)

    def counted(self) -> SearchStatistics:
        return SearchStatistics(
            seconds=time.perf_counter() - self._begin,
            candidates=self.candidates,
            stages_measured=self._measured if self.measuring is not None else None,
            rounds=self.rounds,
            complete=self.complete,
        )

    def _seconds_on_lanes(self) -> Seconds:
        if self.measuring is None:
            return np.zeros((len(self.graph), 2))
        self.measuring.bounds(self._request.progress)
        known = self._request.costs.completed(sequential_schedule(self.graph)).unit_latencies
        if len(known) == len(self.graph):
            table = np.array([known[unit] for unit in range(len(self.graph))])
            return np.minimum.accumulate(table, axis=1)
        # The number of streams is not limited: a unit takes as long on one as alone.
        alone = [self.bound(stage) for stage in sequential_stages(self.graph)]
        return np.array([alone, alone]).T


def _paired(prices: _Prices, left: Stages, right: Stages) -> Stages:
    """Join two sequences of stages into one with the least sum of seconds."""
    measures = prices.measuring is not None
    most, room = (_STAGES, _COSTS) if measures else (_PRICED_STAGES, _PRICED)
    fitting = math.isqrt(room // ((len(left) + 1) * (len(right) + 1))) - 1
    pairs = StagePairs(len(left), len(right), max(1, min(most, fitting)))
    pairs.set_alone(
        [prices.seconds[stage] for stage in left], [prices.seconds[stage] for stage in right]
    )
    find_way = _measured_way if measures else _priced_way
    return tuple(_stage(left, right, step) for step in find_way(prices, pairs, left, right))


def _priced_way(prices: _Prices, pairs: StagePairs, left: Stages, right: Stages) -> Way:
    """Return the cheapest way if the seconds of every stage may be asked for."""
    steps = [*pairs.steps(), Step(0, 0, len(left), len(right))]
    stages = [_stage(left, right, step) for step in steps]
    prices.ask(stages)
    prices.candidates += len(steps)
    for step, stage in zip(steps, stages, strict=True):
        pairs.set_cost(step, prices.seconds[stage])
    return pairs.cheapest()[1]


def _measured_way(prices: _Prices, pairs: StagePairs, left: Stages, right: Stages) -> Way:
    """Return the cheapest way, measuring only steps that may be on it.

    A step that was not measured is expected to cost what it would if lanes did not disturb each
    other. If small gains may be left out, this is scaled by the median ratio of measured to
    expected costs: otherwise steps that were not measured always look better than measured ones.
    """
    tables = [np.array([prices.table(stage) for stage in each]) for each in (left, right)]
    several = {
        step: prices.bound(_stage(left, right, step))
        for step in (Step(i, j, 1, 1) for i, j in product(range(len(left)), range(len(right))))
        if len(left[step.left].groups) + len(right[step.right].groups) > 2
    }
    settled: dict[Step, float] = {}
    ratios: list[float] = []
    while True:
        ratio = max(1.0, statistics.median(ratios)) if ratios and prices.gap else 1.0
        pairs.set_bounds(*(table * ratio for table in tables))
        for step, seconds in several.items():
            pairs.set_cost(step, seconds * ratio)
        if not settled:
            prices.candidates += pairs.count
        for step, seconds in settled.items():
            pairs.set_cost(step, seconds)
        expected, way = pairs.cheapest()
        unknown = [step for step in way if step.of_left and step.of_right and step not in settled]
        if not unknown:
            return way
        seconds, measured_way = pairs.only(settled).cheapest()
        if seconds - expected <= prices.gap * seconds:
            return measured_way
        stage_of = {step: _stage(left, right, step) for step in unknown}
        prices.measure_some(list(stage_of.values()))
        known = [step for step, stage in stage_of.items() if stage in prices.seconds]
        if not known:
            return measured_way
        for step in known:
            settled[step] = prices.seconds[stage_of[step]]
            ratios.append(settled[step] / (pairs.cost(step) / ratio))


def _stage(left: Stages, right: Stages, step: Step) -> Stage:
    """Return the stage of a step: a stage as it is, or the groups of two stages side by side.

    If the step takes several stages of a sequence, their units form one group.
    """
    lefts = left[step.left : step.left + step.of_left]
    rights = right[step.right : step.right + step.of_right]
    both = (*lefts, *rights)
    if len(both) == 1:
        return both[0]
    if len(lefts) == len(rights) == 1 and all(s.strategy is Strategy.CONCURRENT for s in both):
        return Stage(Strategy.CONCURRENT, lefts[0].groups + rights[0].groups)
    return Stage(Strategy.CONCURRENT, (_units(lefts), _units(rights)))


def _units(stages: Stages) -> tuple[int, ...]:
    return tuple(unit for stage in stages for unit in stage.units)


def _of_part(stages: Stages, part: int) -> Stages:
    """Return the part of each stage that computes units of a component, without empty stages."""
    sequence: list[Stage] = []
    for stage in stages:
        inside = (tuple(u for u in group if part >> u & 1) for group in stage.groups)
        if groups := tuple(filter(None, inside)):
            sequence.append(replace(stage, groups=groups))
    return tuple(sequence)


TOGETHER = Policy(
    "together",
    "models in one program: stages of one beside stages of another",
    find,
    needs=frozenset({Offer.STAGES}),
    strategies=IOS_BOTH.strategies,
    tried_for=lambda graph: len(components(graph)) > 1,
)
