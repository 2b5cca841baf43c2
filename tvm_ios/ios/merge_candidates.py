"""Sets of units that a search may merge."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from tvm_ios.graph.merge_rule import mergeable
from tvm_ios.graph.op_graph import OpGraph
from tvm_ios.ios.block import Block, block_key, cut_into_blocks
from tvm_ios.ios.ending_space import Pruning
from tvm_ios.ios.endings import enumerate_endings


def merge_candidates(
    graph: OpGraph, blocks: Sequence[int], pruning: Pruning
) -> dict[tuple[int, ...], list[tuple[int, ...]]]:
    """Return the sets of units that a search may merge, once for equal blocks.

    The result maps the units of each candidate, in the first of equal blocks, to the units that
    correspond to them in each of these blocks.
    """
    equal_blocks: dict[str, list[Block]] = {}
    for block in cut_into_blocks(graph, blocks):
        equal_blocks.setdefault(block_key(graph, block), []).append(block)
    candidates: dict[tuple[int, ...], list[tuple[int, ...]]] = {}
    for first, *others in equal_blocks.values():
        space = enumerate_endings(first.predecessors, pruning)
        alone = (space.groups_count == space.ending_sizes) & (space.ending_sizes > 1)
        for index in np.flatnonzero(alone):
            local = sorted(unit for group in space.groups[index] for unit in group)
            units = tuple(first.units[unit] for unit in local)
            if mergeable(graph, units):
                twins = (tuple(block.units[unit] for unit in local) for block in others)
                candidates[units] = [units, *twins]
    return candidates
