"""Which units a search may merge."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from tvm_ios.graph.merge_rule import mergeable
from tvm_ios.graph.op_graph import OpGraph
from tvm_ios.ios.block import block_key, cut_into_blocks
from tvm_ios.ios.endings import Pruning, enumerate_endings


def merge_candidates(
    graph: OpGraph, masks: Sequence[int], pruning: Pruning
) -> dict[tuple[int, ...], int]:
    """Units that a search may merge, and in how many places; equal blocks once.

    Parameters
    ----------
    graph
        The graph of units.
    masks
        Bit sets of units, a block each.
    pruning
        Limits of the search.
    """
    blocks = cut_into_blocks(graph, masks)
    keys = [block_key(graph, block) for block in blocks]
    found: dict[tuple[int, ...], int] = {}
    for key, block in dict(zip(reversed(keys), reversed(blocks), strict=True)).items():
        space = enumerate_endings(block.predecessors, pruning)
        alone = (space.groups_count == space.ending_sizes) & (space.ending_sizes > 1)
        for index in np.flatnonzero(alone):
            units = tuple(sorted(u for group in block.groups(space.groups[index]) for u in group))
            if mergeable(graph, units):
                found[units] = keys.count(key)
    return found
