"""The Pareto front of latency and memory: schedules of which none is both faster and smaller."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from tvm_ios.costs.model import CostModel
from tvm_ios.errors import MemoryBudgetError
from tvm_ios.graph.op_graph import OpGraph, mask_of
from tvm_ios.ios.block import block_key, block_symmetry, cut_into_blocks
from tvm_ios.ios.dynamic_program import Solution
from tvm_ios.ios.ending_space import Pruning
from tvm_ios.ios.network import renumbered
from tvm_ios.ios.priced_block import PricedBlock
from tvm_ios.ios.stage_memory import blocks_memory, stages_peak
from tvm_ios.ios.strategies import Mergeable
from tvm_ios.progress import Steps
from tvm_ios.schedule.schedule import Schedule
from tvm_ios.schedule.stage import Stage, Strategy

#: Relative differences up to this are ties: sums of latencies differ so by rounding.
_TIE = 1e-12


@dataclass(frozen=True, slots=True)
class FrontPoint:
    """A schedule, and the most bytes that one of its stages needs."""

    schedule: Schedule
    peak: int


def pareto_front(
    graph: OpGraph,
    blocks: Sequence[int],
    cost: CostModel,
    strategies: frozenset[Strategy],
    pruning: Pruning,
    mergeable: Mergeable,
    *,
    branches_as_one: bool = False,
    progress: Steps | None = None,
) -> tuple[FrontPoint, ...]:
    """Return all trades of latency for memory, the fastest schedule first.

    The fastest schedule is found, then the fastest that needs less memory than that one, and so on
    until nothing is left. Each is the fastest of all schedules of the search that need as little as
    it does; what a stage needs is counted as in :mod:`tvm_ios.ios.stage_memory`. The costs of
    stages are computed once.

    Arguments and errors are those of :func:`tvm_ios.ios.network.search_graph`.
    """
    parts = cut_into_blocks(graph, blocks)
    memory = blocks_memory(graph, parts)
    priced: dict[str, PricedBlock] = {}
    keys: list[str] = []
    before = 0
    for done, (block, around) in enumerate(zip(parts, memory, strict=True), start=1):
        keys.append(block_key(graph, block) + around.key)
        if keys[-1] not in priced:
            priced[keys[-1]] = PricedBlock.of(
                graph,
                block,
                cost,
                strategies,
                pruning,
                mergeable,
                around,
                symmetry=block_symmetry(graph, block, before) if branches_as_one else None,
            )
        before |= mask_of(block.units)
        if progress is not None:
            progress(done, len(parts))

    solved: dict[tuple[str, int], Solution] = {}

    def solution(key: str, left: int) -> Solution:
        # All budgets above the needs of every stage have one solution.
        left = min(left, priced[key].most)
        if (key, left) not in solved:
            solved[key, left] = priced[key].solve(left)
        return solved[key, left]

    def schedule(budget: int) -> Schedule:
        stages: list[Stage] = []
        for key, block, around in zip(keys, parts, memory, strict=True):
            block_solution = solution(key, budget - around.outside)
            twin = dict(zip(priced[key].block.units, block.units, strict=True))
            stages += [renumbered(stage, twin) for stage in block_solution.stages]
        return Schedule(graph.fingerprint, tuple(stages), policy="", batch=graph.batch)

    return descend(graph, schedule)


def descend(graph: OpGraph, schedule: Callable[[int], Schedule]) -> tuple[FrontPoint, ...]:
    """Return the Pareto front, by searches for the fastest schedule within ever smaller budgets.

    ``schedule`` is the search; it raises :class:`MemoryBudgetError` if nothing fits.
    """
    points: list[FrontPoint] = []
    budget = sum(tensor.nbytes for tensor in graph.tensors)
    while True:
        try:
            fastest = schedule(budget)
        except MemoryBudgetError:
            if not points:
                raise
            return tuple(points)
        if points and fastest.latency <= points[-1].schedule.latency * (1 + _TIE):
            # The new schedule is as fast and needs less memory.
            points.pop()
        points.append(FrontPoint(fastest, stages_peak(graph, fastest.stages)))
        budget = points[-1].peak - 1
