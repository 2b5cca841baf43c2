"""Search a whole network, block by block; equal blocks once."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from tvm_ios.cost.model import CostModel
from tvm_ios.graph import OpGraph
from tvm_ios.schedule import Schedule, Stage, Strategy
from tvm_ios.search.block import Block, block_key, cut_into_blocks
from tvm_ios.search.endings import Pruning
from tvm_ios.search.ios import Groups, solve
from tvm_ios.search.policies import Mergeable, candidate_stages, generate_stage, strategies_of
from tvm_ios.search.stage_order import in_graph_order

#: Called with the blocks done so far and all of them.
Progress = Callable[[int, int], None]


@dataclass(frozen=True, slots=True)
class BlockSolution:
    """The best stages of a block, with the graph's unit numbers.

    Attributes
    ----------
    cost
        Seconds.
    stages, latencies
        In the order of execution, with seconds each.
    states, transitions, endings
        How much was searched.
    """

    cost: float
    stages: tuple[Stage, ...]
    latencies: tuple[float, ...]
    states: int
    transitions: int
    endings: int


@dataclass(frozen=True, slots=True)
class SearchStatistics:
    """What a search took.

    Attributes
    ----------
    seconds
        Wall time.
    states, transitions, endings
        Sums over the blocks that were searched.
    blocks, blocks_searched
        How many there are, and how many of these differ.
    """

    seconds: float
    states: int
    transitions: int
    endings: int
    blocks: int
    blocks_searched: int


def search_graph(
    graph: OpGraph,
    blocks: Sequence[int],
    cost: CostModel,
    policy: str,
    pruning: Pruning,
    mergeable: Mergeable,
    *,
    reuse: bool = True,
    progress: Progress | None = None,
    device: str = "",
    batch: int = 1,
) -> tuple[Schedule, SearchStatistics]:
    """Find the fastest schedule of a graph of units under a policy of IOS.

    Parameters
    ----------
    graph
        The graph of units.
    blocks
        Bit sets of units, in the order of execution.
    cost
        Seconds of a stage.
    policy
        One of :data:`tvm_ios.search.policies.POLICIES`. What is co-scheduled has no placement yet:
        see :func:`tvm_ios.search.rammer.with_placements`.
    pruning
        Limits on groups.
    mergeable
        Tells which units can become one operator.
    reuse
        Search equal blocks once.
    progress
        Called after every block.
    device, batch
        Written into the schedule.

    Raises
    ------
    SearchError
        If the policy is unknown, the blocks do not fit, or a block has no finite schedule.
    """
    begin = time.perf_counter()
    strategies = strategies_of(policy)
    found: dict[str, tuple[Block, BlockSolution]] = {}
    stages: list[Stage] = []
    latencies: list[float] = []
    searched: list[BlockSolution] = []
    parts = cut_into_blocks(graph, blocks)
    for done, block in enumerate(parts):
        key = block_key(graph, block) if reuse else str(done)
        if key not in found:
            found[key] = block, _search(graph, block, cost, strategies, pruning, mergeable)
            searched.append(found[key][1])
        original, solution = found[key]
        twin = dict(zip(original.units, block.units, strict=True))
        stages += [renumbered(stage, twin) for stage in solution.stages]
        latencies += solution.latencies
        if progress is not None:
            progress(done + 1, len(parts))
    in_order, seconds = in_graph_order(graph, stages, latencies)
    schedule = Schedule(
        fingerprint=graph.fingerprint,
        stages=in_order,
        policy=policy,
        device=device,
        batch=batch,
        latencies=seconds,
    )
    return schedule, SearchStatistics(
        seconds=time.perf_counter() - begin,
        states=sum(s.states for s in searched),
        transitions=sum(s.transitions for s in searched),
        endings=sum(s.endings for s in searched),
        blocks=len(parts),
        blocks_searched=len(searched),
    )


def search_block(
    graph: OpGraph,
    units: int,
    cost: CostModel,
    strategies: frozenset[Strategy],
    pruning: Pruning,
    mergeable: Mergeable,
) -> BlockSolution:
    """Find the fastest stages for a bit set of units.

    Raises
    ------
    SearchError
        If the block is too large or has no finite schedule.
    """
    return _search(graph, Block.of(graph, units), cost, strategies, pruning, mergeable)


def renumbered(stage: Stage, numbers: dict[int, int]) -> Stage:
    """A stage of one block as the stage of an equal block."""
    return Stage(stage.strategy, tuple(tuple(numbers[u] for u in g) for g in stage.groups))


def _search(
    graph: OpGraph,
    block: Block,
    cost: CostModel,
    strategies: frozenset[Strategy],
    pruning: Pruning,
    mergeable: Mergeable,
) -> BlockSolution:
    def stage(_: int, groups: Groups) -> tuple[float, Strategy]:
        stages = candidate_stages(graph, block.groups(groups), strategies, mergeable)
        return generate_stage(graph, cost, stages)

    solution = solve(block.predecessors, stage, pruning)
    return BlockSolution(
        cost=solution.cost,
        stages=tuple(block.stage(s) for s in solution.stages),
        latencies=solution.latencies,
        states=solution.states,
        transitions=solution.transitions,
        endings=solution.endings,
    )
