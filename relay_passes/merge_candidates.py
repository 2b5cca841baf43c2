"""Which units a search may merge."""

from __future__ import annotations

import numpy as np

from relay_passes.module_search import ModuleSearch
from tvm_ios.graph.merge_rule import mergeable
from tvm_ios.ios.block import block_key, cut_into_blocks
from tvm_ios.ios.endings import enumerate_endings


def merge_candidates(search: ModuleSearch) -> dict[tuple[int, ...], int]:
    """Units that a search may merge, and in how many places; equal blocks once."""
    graph = search.prepared.units
    blocks = cut_into_blocks(graph, search.blocks)
    keys = [block_key(graph, block) for block in blocks]
    found: dict[tuple[int, ...], int] = {}
    for key, block in dict(zip(reversed(keys), reversed(blocks), strict=True)).items():
        space = enumerate_endings(block.predecessors, search.options.pruning)
        alone = (space.groups_count == space.ending_sizes) & (space.ending_sizes > 1)
        for index in np.flatnonzero(alone):
            units = tuple(sorted(u for group in block.groups(space.groups[index]) for u in group))
            if mergeable(graph, units):
                found[units] = keys.count(key)
    return found
