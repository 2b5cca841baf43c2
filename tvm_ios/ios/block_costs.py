"""The costs of one block's stages, some measured and the others optimistic."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import cached_property

import numpy as np
import numpy.typing as npt

from tvm_ios.costs.model import CostModel
from tvm_ios.graph.op_graph import OpGraph, mask_of
from tvm_ios.ios.block import Block
from tvm_ios.ios.dynamic_program import STRATEGIES, Groups, Solution, solve_space
from tvm_ios.ios.ending_space import EndingSpace
from tvm_ios.ios.strategies import Mergeable, candidate_stages
from tvm_ios.schedule.stage import Stage, Strategy
from tvm_ios.schedule.waves import stage_of


class BlockCosts:
    """Seconds of every candidate stage of a block; measurements replace estimates.

    A candidate is a number: the index of a distinct ending of the space, plus the number of endings
    times the place of its strategy.
    """

    def __init__(
        self,
        block: Block,
        space: EndingSpace,
        seconds: npt.NDArray[np.float64],
        stage_key: Callable[[Stage], str],
    ) -> None:
        self.space = space
        self._block = block
        self._seconds = seconds
        self._possible = np.isfinite(seconds)
        self._measured = np.zeros(seconds.shape, np.bool_)
        self._optimum: Solution | None = None
        self._best: Solution | None = None
        candidates = np.flatnonzero(self._possible).tolist()
        self._twins = TwinStages(
            ((candidate, *self._strategy_and_groups(candidate)) for candidate in candidates),
            len(block.units),
            lambda strategy, groups: stage_key(self._stage(strategy, groups)),
        )

    @staticmethod
    def of(
        graph: OpGraph,
        block: Block,
        space: EndingSpace,
        optimistic: CostModel,
        strategies: frozenset[Strategy],
        mergeable: Mergeable,
        stage_key: Callable[[OpGraph, Stage], str],
    ) -> BlockCosts:
        """Return optimistic costs of all stages that the strategies allow."""
        seconds = np.full((len(STRATEGIES), len(space.endings)), np.inf)
        for ending, groups in enumerate(space.groups):
            for stage in candidate_stages(graph, block.groups(groups), strategies, mergeable):
                row = STRATEGIES.index(stage.strategy)
                seconds[row, ending] = optimistic.stage_latency(graph, stage)
        return BlockCosts(block, space, seconds, lambda stage: stage_key(graph, stage))

    @property
    def candidates(self) -> int:
        """The number of stages that the full search would measure."""
        return int(self._possible.sum())

    def stage(self, candidate: int) -> Stage:
        """Return a candidate as a stage with the graph's unit numbers."""
        return self._stage(*self._strategy_and_groups(candidate))

    def single_units(self) -> list[int]:
        """Return the candidates of the sequential schedule, in its order."""
        return [self.space.index_of(1 << unit) for unit in range(len(self._block.units))]

    def unmeasured(self) -> list[int]:
        """Return every possible candidate that was not measured."""
        return np.flatnonzero(self._possible & ~self._measured).tolist()

    def unmeasured_of_optimum(self) -> list[int]:
        """Return the candidates of the present optimum that were not measured."""
        return [
            candidate
            for stage in self._present_optimum().stages
            if not self._measured.flat[candidate := self._candidate(stage)]
        ]

    def is_unmeasured(self, candidate: int) -> bool:
        """Return whether neither a candidate nor one with its key was measured."""
        return not self._measured.flat[candidate]

    def key(self, candidate: int) -> str:
        """Return the stage key of a candidate."""
        return self._twins.key(candidate)

    def set_measured(self, key: str, seconds: float) -> None:
        """Replace the estimates of all candidates with a key by a measurement."""
        candidates = self._twins.numbers(key)
        self._seconds.flat[candidates] = seconds
        self._measured.flat[candidates] = True
        self._optimum = self._best = None

    def possible_gain(self) -> float:
        """Return the most seconds that the optimum may save over the sequential schedule."""
        return self.alone() - self.lower_bound()

    def alone(self) -> float:
        """Return the seconds of the sequential schedule."""
        return sum(float(self._seconds.flat[candidate]) for candidate in self.single_units())

    def left_to_gain(self) -> float:
        """Return the most seconds that the optimum may save over the best measured stages."""
        return self.best_measured().cost - self.lower_bound()

    def best_measured(self) -> Solution:
        """Return the fastest schedule of measured stages.

        Raise SearchError if a unit on its own has no finite latency.
        """
        if self._best is None:
            self._best = self._solve(np.where(self._measured, self._seconds, np.inf))
        return self._best

    def is_settled(self) -> bool:
        """Return whether all stages of the optimum were measured."""
        return not self.unmeasured_of_optimum()

    def lower_bound(self) -> float:
        """Return the seconds of the present optimum.

        No schedule is faster if the estimates are lower bounds.
        """
        return self._present_optimum().cost

    def _present_optimum(self) -> Solution:
        if self._optimum is None:
            self._optimum = self._solve(self._seconds)
        return self._optimum

    def _solve(self, seconds: npt.NDArray[np.float64]) -> Solution:
        # Ties go to the first strategy, which is the simplest.
        return solve_space(self.space, seconds.min(axis=0), seconds.argmin(axis=0))

    def _stage(self, strategy: Strategy, groups: Groups) -> Stage:
        """Return the stage that an ending becomes, with the graph's unit numbers."""
        return self._block.stage(stage_of(strategy, groups, self.space.predecessors))

    def _strategy_and_groups(self, candidate: int) -> tuple[Strategy, Groups]:
        """Return the strategy of a candidate, and the groups of its ending."""
        row, ending = divmod(candidate, len(self.space.endings))
        return STRATEGIES[row], self.space.groups[ending]

    def _candidate(self, stage: Stage) -> int:
        ending = self.space.index_of(mask_of(stage.units))
        return STRATEGIES.index(stage.strategy) * len(self.space.endings) + ending


#: Returns the stage key of one of the block's stages.
KeyOf = Callable[[Strategy, Groups], str]


class TwinStages:
    """Stages by their keys; a key is computed only for stages that may share a requested one.

    Units of stages with equal keys have equal keys alone, group by group: those of the ending, for
    co-scheduled ones too. So the stages fall into classes by the keys of their units alone, and the
    keys of a class are computed when the first of its stages is asked for.
    """

    def __init__(
        self, stages: Iterable[tuple[int, Strategy, Groups]], units: int, key_of: KeyOf
    ) -> None:
        self._stages = {number: (strategy, groups) for number, strategy, groups in stages}
        self._units = units
        self._key_of = key_of
        self._keys: dict[int, str] = {}
        self._numbers: dict[str, list[int]] = {}

    def key(self, stage: int) -> str:
        """Return the key of a stage."""
        if stage not in self._keys:
            for twin in self._classes.pop(self._class(*self._stages[stage])):
                key = self._key_of(*self._stages[twin])
                self._keys[twin] = key
                self._numbers.setdefault(key, []).append(twin)
        return self._keys[stage]

    def numbers(self, key: str) -> list[int]:
        """Return all stages with a key that :meth:`key` has returned."""
        return self._numbers[key]

    def _class(self, strategy: Strategy, groups: Groups) -> tuple[object, ...]:
        kinds = self._kinds
        # Keys of co-scheduled stages list units wave by wave, whatever their numbers.
        order = sorted if strategy is Strategy.CO_SCHEDULE else iter
        return strategy, *sorted([tuple(order([kinds[u] for u in group])) for group in groups])

    @cached_property
    def _classes(self) -> dict[tuple[object, ...], list[int]]:
        classes: dict[tuple[object, ...], list[int]] = {}
        for number, (strategy, groups) in self._stages.items():
            classes.setdefault(self._class(strategy, groups), []).append(number)
        return classes

    @cached_property
    def _kinds(self) -> list[int]:
        """A number for each unit, equal for units that have the same key alone."""
        numbers: dict[str, int] = {}
        keys = [self._key_of(Strategy.CONCURRENT, ((u,),)) for u in range(self._units)]
        return [numbers.setdefault(key, len(numbers)) for key in keys]
