"""Search for the fastest schedule of a whole network, block by block; equal blocks once."""

from __future__ import annotations

import math
import time
from collections.abc import Sequence
from dataclasses import replace

from tvm_ios.costs.model import CostModel
from tvm_ios.graph.op_graph import OpGraph, mask_of
from tvm_ios.ios.block import Block, block_key, block_symmetry, cut_into_blocks
from tvm_ios.ios.dynamic_program import Solution
from tvm_ios.ios.ending_space import EndingSpace, Pruning
from tvm_ios.ios.priced_block import PricedBlock
from tvm_ios.ios.stage_memory import budgeted_blocks
from tvm_ios.ios.statistics import SearchStatistics
from tvm_ios.ios.strategies import Mergeable
from tvm_ios.progress import Steps
from tvm_ios.schedule.schedule import Schedule
from tvm_ios.schedule.stage import Stage, Strategy
from tvm_ios.schedule.stage_order import schedule_of_blocks


def search_graph(
    graph: OpGraph,
    blocks: Sequence[int],
    cost: CostModel,
    strategies: frozenset[Strategy],
    pruning: Pruning,
    mergeable: Mergeable,
    *,
    reuse: bool = True,
    branches_as_one: bool = False,
    progress: Steps | None = None,
    memory_budget: int | None = None,
    time_limit: float | None = None,
) -> tuple[Schedule, SearchStatistics]:
    """Find the fastest schedule of a graph of units by IOS.

    ``blocks`` are bit sets of units, in the order of execution. Co-scheduled stages have no
    placement yet: see :func:`tvm_ios.rammer.wavefront.with_placements`. With ``reuse`` equal blocks
    are searched once. With ``branches_as_one`` the equal branches of a block are searched as one,
    which is exact if exchanging such branches never changes the time of a stage, as
    :class:`tvm_ios.costs.costs.Costs` may say. ``progress`` is called after every block.
    ``memory_budget`` limits the bytes of the tensors between units at any time, as
    :mod:`tvm_ios.ios.stage_memory` counts them. After ``time_limit`` seconds the blocks that are
    left get the best stages of one order each.

    Raise SearchError if the blocks do not fit the graph or a block has no finite schedule,
    MemoryBudgetError if no schedule fits into the memory budget.
    """
    begin = time.perf_counter()
    until = math.inf if time_limit is None else begin + time_limit
    solved: dict[str, tuple[Block, Solution]] = {}
    complete = True
    stages: list[Stage] = []
    searched: list[Solution] = []
    parts = cut_into_blocks(graph, blocks)
    memory = budgeted_blocks(graph, parts, memory_budget)
    spaces: dict[object, EndingSpace] = {}
    before = 0
    for done, (block, (around, left)) in enumerate(zip(parts, memory, strict=True)):
        key = block_key(graph, block) if reuse else str(done)
        if around is not None:
            key += f"{around.key} {left}"
        if key not in solved:
            symmetry = block_symmetry(graph, block, before) if branches_as_one else None
            priced = PricedBlock.of(
                graph,
                block,
                cost,
                strategies,
                pruning,
                mergeable,
                around,
                until,
                symmetry,
                spaces if reuse else None,
            )
            complete &= priced.space.complete
            solved[key] = block, priced.solve(left)
            searched.append(solved[key][1])
        original, solution = solved[key]
        twin = dict(zip(original.units, block.units, strict=True))
        stages += [renumbered(stage, twin) for stage in solution.stages]
        before |= mask_of(block.units)
        if progress is not None:
            progress(done + 1, len(parts))
    schedule = schedule_of_blocks(graph, stages, keep_order=memory_budget is not None)
    return schedule, SearchStatistics(
        seconds=time.perf_counter() - begin,
        states=sum(s.states for s in searched),
        transitions=sum(s.transitions for s in searched),
        endings=sum(s.endings for s in searched),
        complete=complete,
        blocks=len(parts),
        blocks_searched=len(searched),
    )


def renumbered(stage: Stage, numbers: dict[int, int]) -> Stage:
    """Return a stage of one block as the stage of an equal block."""
    return replace(stage, groups=tuple(tuple(numbers[u] for u in g) for g in stage.groups))
