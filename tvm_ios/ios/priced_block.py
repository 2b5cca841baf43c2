"""Blocks whose stages all have known costs, to be solved for any memory budget."""

from __future__ import annotations

import gc
import itertools
import math
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass, replace

import numpy as np

from tvm_ios.costs.model import CostModel, stage_latencies
from tvm_ios.graph.branch_symmetry import BranchSymmetry
from tvm_ios.graph.op_graph import OpGraph
from tvm_ios.ios.block import Block
from tvm_ios.ios.dynamic_program import STRATEGIES, Seconds, Solution, solve_space
from tvm_ios.ios.ending_space import EndingSpace, Integers, Pruning
from tvm_ios.ios.endings import OutOfTimeError, enumerate_endings, enumerate_runs, require_time
from tvm_ios.ios.stage_memory import BlockMemory, within_budget
from tvm_ios.ios.strategies import Mergeable, candidate_stages, generate_stage
from tvm_ios.schedule.stage import Strategy

#: Endings whose costs are computed at once; the time limit is checked in between.
_AT_ONCE = 2048


@dataclass(frozen=True)
class PricedBlock:
    """A block, its search space, the seconds and strategy of each ending, and bytes.

    ``latency`` and ``strategies`` are those of :func:`tvm_ios.ios.dynamic_program.solve_space`.
    ``needs`` are the bytes of each transition, or None where memory is not counted.
    """

    block: Block
    space: EndingSpace
    latency: Seconds
    strategies: Integers
    needs: Integers | None

    @staticmethod
    def of(
        graph: OpGraph,
        block: Block,
        cost: CostModel,
        strategies: frozenset[Strategy],
        pruning: Pruning,
        mergeable: Mergeable,
        memory: BlockMemory | None = None,
        until: float = math.inf,
        symmetry: BranchSymmetry | None = None,
        spaces: dict[object, EndingSpace] | None = None,
    ) -> PricedBlock:
        """Ask a cost model once for every distinct ending, or after ``until`` for one order's.

        ``until`` is by :func:`time.perf_counter`. ``symmetry`` says which branches of the block the
        cost model does not tell apart. ``spaces`` caches search spaces for blocks with equal
        wiring. The other arguments are those of :func:`tvm_ios.ios.network.search_graph`. Raise
        SearchError if the block is too large.
        """

        def priced(
            space: EndingSpace, strategies: frozenset[Strategy], until: float
        ) -> PricedBlock:
            latency = np.empty(len(space.endings))
            chosen = np.zeros(len(space.endings), np.int64)
            all_groups = space.groups_of(block.units)
            for begin in range(0, len(all_groups), _AT_ONCE):
                require_time(until)
                candidates = [
                    candidate_stages(graph, groups, strategies, mergeable)
                    for groups in all_groups[begin : begin + _AT_ONCE]
                ]
                stages = list(itertools.chain.from_iterable(candidates))
                seconds = iter(stage_latencies(cost, graph, stages).tolist())
                for ending, choices in enumerate(candidates, begin):
                    times = itertools.islice(seconds, len(choices))
                    latency[ending], strategy = generate_stage(choices, times)
                    chosen[ending] = STRATEGIES.index(strategy)
            needs = None if memory is None else memory.needs(space)
            return PricedBlock(block, space, latency, chosen, needs)

        try:
            known, wiring = spaces if spaces is not None else {}, (block.predecessors, symmetry)
            if wiring not in known:
                known[wiring] = enumerate_endings(block.predecessors, pruning, until, symmetry)
            space = known[wiring]
            with _without_collecting():
                return priced(space, strategies, until)
        except OutOfTimeError:
            # Estimating co-scheduled stages takes the most time: leave them out.
            simple = strategies - {Strategy.CO_SCHEDULE}
            return priced(enumerate_runs(block.predecessors, pruning), simple, math.inf)

    @property
    def most(self) -> int:
        """The most bytes that a stage needs; 0 where memory is not counted."""
        return 0 if self.needs is None else int(self.needs.max(initial=0))

    def solve(self, budget: int | None = None) -> Solution:
        """Return the fastest stages, with the graph's unit numbers, none above a budget of bytes.

        Raise SearchError if the block has no finite schedule, or none that fits.
        """
        space = self.space
        if budget is not None and self.needs is not None:
            space = within_budget(space, self.needs, budget)
        solution = solve_space(space, self.latency, self.strategies)
        stages = tuple(self.block.stage(stage) for stage in solution.stages)
        return replace(solution, stages=stages)


@contextmanager
def _without_collecting() -> Generator[None]:
    """Disable garbage collection: hundreds of thousands of tuples have no cycles to look for."""
    collecting = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if collecting:
            gc.enable()
