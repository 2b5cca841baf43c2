"""Sizes of searches and networks: exact numbers, which need no device."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any

from tvm_ios.ios.counts import count_block
from tvm_ios.models.load import blocks_of, load_graph
from tvm_ios.papers.ios.networks import ZOO
from tvm_ios.papers.row import How, Row
from tvm_ios.papers.steps import Steps

#: What the publication calls units of these operators.
_KINDS = {"conv2d+bias_add+relu": "Conv-Relu", "relu+conv2d+conv2d+bias_add": "Relu-SepConv"}


def largest_blocks(published: Mapping[str, Any], steps: Steps) -> Iterator[Row]:
    """The largest block of each network (IOS, table 3.1)."""
    for network, values in published.items():
        counted = steps.once(largest_block, ZOO[network])
        command = f"tvm-ios stats {ZOO[network]} --groups rooted"
        for quantity, value in values.items():
            yield Row(
                f"{network}, {quantity}", value, counted[quantity], "", How.COUNTED, command=command
            )


def largest_block(network: str) -> dict[str, float]:
    """Sizes of the block of most transitions of a network of the zoo."""
    blocks = blocks_of(load_graph(network), 40)
    counts = [count_block(predecessors, "rooted") for predecessors in blocks]
    largest = max(counts, key=lambda block: (block.transitions, block.operators))
    chain = largest.operators / largest.width
    return {
        "n": largest.operators,
        "d": largest.width,
        "bound": ((chain + 2) * (chain + 1) / 2) ** largest.width,
        "transitions": largest.transitions,
        "schedules": largest.schedules,
    }


def networks(published: Mapping[str, Any], steps: Steps) -> Iterator[Row]:
    """Blocks, operators and the main kind of operator of each network (IOS, table 4.1)."""
    for network, values in published.items():
        counted = steps.once(network_counts, ZOO[network])
        for quantity, value in values.items():
            yield Row(
                f"{network}, {quantity}",
                value,
                counted[quantity],
                "",
                How.COUNTED,
                command=f"tvm-ios stats {ZOO[network]}",
            )


def network_counts(network: str) -> dict[str, float | str]:
    """How many blocks and units a network of the zoo has, and which kind most of them are."""
    graph = load_graph(network)
    blocks = [block for block in blocks_of(graph, 40) if len(block) > 1]
    kinds = Counter(_KINDS.get(op.kind, op.kind) for op in graph.operators)
    return {
        "blocks": len(blocks),
        "operators": len(graph),
        "kind": kinds.most_common(1)[0][0],
    }
