"""A search that measures only stages that may matter, and so ends in minutes.

Stages start with optimistic costs, composed from what was measured before. The optimum under these
names the stages worth measuring; with their true costs the problem is solved again, until every
stage of the optimum is measured. If the optimistic costs are lower bounds, that optimum is the one
that measuring everything would find: any other schedule costs at least its optimistic cost, which
is no less.
"""

from __future__ import annotations

import math
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from tvm_ios.costs.model import CostModel
from tvm_ios.graph.op_graph import OpGraph
from tvm_ios.ios.block import Block, block_key, cut_into_blocks
from tvm_ios.ios.block_costs import BlockCosts
from tvm_ios.ios.ending_space import EndingSpace, Pruning
from tvm_ios.ios.endings import endings_until
from tvm_ios.ios.network import renumbered
from tvm_ios.ios.stage_memory import budgeted_blocks, within_budget
from tvm_ios.ios.statistics import SearchStatistics
from tvm_ios.ios.strategies import Mergeable
from tvm_ios.progress import Steps
from tvm_ios.schedule.schedule import Schedule
from tvm_ios.schedule.stage import Stage, Strategy
from tvm_ios.schedule.stage_order import schedule_of_blocks

#: Yields the seconds of stages, in their order; stages have different keys. A stage is taken from
#: the iterable only when it can be measured.
Measure = Callable[[Iterable[Stage]], Iterator[float]]
#: Returns a key that two stages share if they need only one measurement.
StageKey = Callable[[OpGraph, Stage], str]


@dataclass(frozen=True, slots=True)
class Budget:
    """Limits on measuring; single units are measured in any case."""

    #: The most stages measured, or None.
    max_measurements: int | None = None
    #: Seconds from the start of the search, or None.
    time_limit: float | None = None
    #: Measure every stage of the search at once, instead of those that may matter.
    everything: bool = False
    #: The part of the sequential time that may be left to gain: measuring stops once no more than
    #: that can be won.
    gap: float = 0.0
    #: Stop measuring after so many stages in a row that win less than a tenth of the gap, or None.
    patience: int | None = None

    def is_spent(self, measured: int, seconds: float) -> bool:
        """Return whether so many measurements, or seconds from the search's start, are enough."""
        if self.max_measurements is not None and measured >= self.max_measurements:
            return True
        return self.time_limit is not None and seconds >= self.time_limit


def lazy_search(
    graph: OpGraph,
    blocks: Sequence[int],
    optimistic: CostModel,
    measure: Measure,
    stage_key: StageKey,
    strategies: frozenset[Strategy],
    pruning: Pruning,
    mergeable: Mergeable,
    *,
    budget: Budget = Budget(),
    progress: Steps | None = None,
    memory_budget: int | None = None,
) -> tuple[Schedule, SearchStatistics]:
    """Find the fastest schedule by measuring few stages.

    ``optimistic`` estimates the seconds of stages that were not measured; the result is that of the
    full search if the estimates are lower bounds. ``measure`` yields the measured seconds, and
    stages with equal ``stage_key`` are measured once. ``progress`` is called after every
    measurement with the number of stages measured, and of those known to be waiting. The other
    arguments are those of :func:`tvm_ios.ios.network.search_graph`; equal blocks are searched once.

    Raise SearchError if the blocks do not fit the graph or a unit cannot run on its own,
    MemoryBudgetError if no schedule fits into the memory budget.
    """
    begin = time.perf_counter()
    parts = cut_into_blocks(graph, blocks)
    until = math.inf if budget.time_limit is None else begin + budget.time_limit
    keys: list[str] = []
    originals: dict[str, Block] = {}
    costs: dict[str, BlockCosts] = {}
    spaces: dict[tuple[int, ...], EndingSpace] = {}
    for block, (around, left) in zip(
        parts, budgeted_blocks(graph, parts, memory_budget), strict=True
    ):
        key = block_key(graph, block) + (f"{around.key} {left}" if around is not None else "")
        keys.append(key)
        if key in originals:
            continue
        originals[key] = block
        if block.predecessors not in spaces:
            spaces[block.predecessors] = endings_until(block.predecessors, pruning, until)
        space = spaces[block.predecessors]
        if around is not None and left is not None:
            space = within_budget(space, around.needs(space), left)
        costs[key] = BlockCosts.of(
            graph, block, space, optimistic, strategies, mergeable, stage_key
        )

    all_searched = all(space.complete for space in spaces.values())
    measuring = _Measuring(measure, budget, begin, progress)
    searched = tuple(costs.values())
    measuring.settle([(each, c) for each in searched for c in each.single_units()], always=True)
    if budget.everything:
        measuring.settle([(each, c) for each in searched for c in each.unmeasured()])

    rounds = 0
    counts = Counter(keys)
    alone = sum(costs[key].alone() * count for key, count in counts.items())
    gains, gap = _Gains(budget, alone), budget.gap * alone
    # Blocks with much to gain and many equal ones come first: the budget may end the search.
    pending = sorted(costs, key=lambda key: -costs[key].possible_gain() * counts[key])
    pending = [key for key in pending if not costs[key].is_settled()]
    while pending and (worth := _worth_measuring(costs, counts, gap)):
        best = sum(costs[key].best_measured().cost * count for key, count in counts.items())
        if gains.have_ended(len(measuring.seconds), best):
            break
        rounds += 1
        asked = [key for key in pending if key in worth]
        optima = [(costs[key], c) for key in asked for c in costs[key].unmeasured_of_optimum()]
        if not measuring.settle(optima):
            break
        pending = [key for key in pending if not costs[key].is_settled()]

    stages: list[Stage] = []
    for key, block in zip(keys, parts, strict=True):
        best = costs[key].best_measured()
        twin = dict(zip(originals[key].units, block.units, strict=True))
        stages += [renumbered(originals[key].stage(stage), twin) for stage in best.stages]
    schedule = schedule_of_blocks(graph, stages, keep_order=memory_budget is not None)
    return schedule, SearchStatistics(
        seconds=time.perf_counter() - begin,
        states=sum(len(block_costs.space.states) for block_costs in costs.values()),
        transitions=sum(block_costs.space.transitions for block_costs in costs.values()),
        candidates=sum(block_costs.candidates for block_costs in costs.values()),
        stages_measured=len(measuring.seconds),
        rounds=rounds,
        complete=all_searched and not _worth_measuring(costs, counts, gap),
        lower_bound=sum(costs[key].lower_bound() for key in keys) if all_searched else None,
        blocks=len(parts),
        blocks_searched=len(costs),
    )


def _worth_measuring(
    costs: Mapping[str, BlockCosts], counts: Mapping[str, int], gap: float
) -> frozenset[str]:
    """Return the keys of unsettled blocks, without those that together can gain at most a gap.

    ``counts`` say how many blocks share a key; the gap is in seconds.
    """
    left = {
        key: costs[key].left_to_gain() * counts[key] for key in costs if not costs[key].is_settled()
    }
    small = 0.0
    for key in sorted(left, key=left.__getitem__) if gap else ():
        small += left[key]
        if small > gap:
            break
        del left[key]
    return frozenset(left)


class _Gains:
    """A record of the gains by measuring, to tell when it no longer gains enough."""

    def __init__(self, budget: Budget, alone: float) -> None:
        self._patience = budget.patience
        self._least = budget.gap * alone / 10
        self._best, self._measured = math.inf, 0

    def have_ended(self, measured: int, best: float) -> bool:
        """Return whether measuring has gained too little for too long.

        ``measured`` counts the stages measured so far; ``best`` is the seconds of the best of them.
        """
        if best < self._best - self._least:
            self._best, self._measured = best, measured
        return self._patience is not None and measured - self._measured >= self._patience


class _Measuring:
    """A measurer that measures each stage key once, as long as the budget lasts."""

    def __init__(
        self, measure: Measure, budget: Budget, begin: float, progress: Steps | None
    ) -> None:
        self.seconds: dict[str, float] = {}
        self._measure = measure
        self._budget = budget
        self._begin = begin
        self._progress = progress

    def settle(self, which: Sequence[tuple[BlockCosts, int]], *, always: bool = False) -> bool:
        """Replace optimistic costs of blocks' candidates by measured ones.

        Return whether the budget allowed any. With ``always`` the budget does not count.
        """
        measured, left, settled = len(self.seconds), len(which), False
        asked: list[str] = []
        waiting: dict[str, list[BlockCosts]] = {}

        def affordable() -> Iterator[Stage]:
            nonlocal left, settled
            for block_costs, candidate in which:
                left -= 1
                if not block_costs.is_unmeasured(candidate):
                    continue
                key = block_costs.key(candidate)
                if key in self.seconds:
                    block_costs.set_measured(key, self.seconds[key])
                    settled = True
                elif key in waiting:
                    waiting[key].append(block_costs)
                elif always or not self._is_spent(measured + len(asked)):
                    asked.append(key)
                    waiting[key] = [block_costs]
                    yield block_costs.stage(candidate)

        # ``asked`` grows with every stage that is taken from the generator.
        for seconds, key in zip(self._measure(affordable()), asked, strict=True):
            self.seconds[key] = seconds
            for block_costs in waiting[key]:
                block_costs.set_measured(key, seconds)
            settled = True
            if self._progress is not None:
                self._progress(len(self.seconds), left)
        return settled

    def _is_spent(self, measured: int) -> bool:
        return self._budget.is_spent(measured, time.perf_counter() - self._begin)
