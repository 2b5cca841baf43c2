"""Sizes of searches and networks: exact numbers, which need no device."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from benchmarks.papers.ios.networks import ZOO
from benchmarks.papers.row import How, Row
from benchmarks.papers.steps import Steps
from tvm_ios.files.json_text import json_object
from tvm_ios.ios.counts import BlockCounts, count_block, width
from tvm_ios.models.bare_graph import bare_graph
from tvm_ios.models.load import blocks_of, load_graph

#: What the publication calls units of these operators.
_KINDS = {"conv2d+bias_add+relu": "Conv-Relu", "relu+conv2d+conv2d+bias_add": "Relu-SepConv"}
#: The wiring that was published, of the one stage that is the largest block.
_WIRING = Path(__file__).parent / "randwire_stage.json"


def largest_blocks(published: Mapping[str, Any], steps: Steps) -> Iterator[Row]:
    """The largest block of each network (IOS, table 3.1)."""
    for network, values in published.items():
        if network == "Randwire":
            counted = steps.once(published_wiring)
            command = "tvm-ios stats benchmarks/papers/ios/randwire_stage.json --groups rooted"
        else:
            counted = steps.once(largest_block, ZOO[network])
            command = f"tvm-ios stats {ZOO[network]} --groups rooted"
        for quantity, value in values.items():
            yield Row(
                f"{network}, {quantity}", value, counted[quantity], "", How.COUNTED, command=command
            )


def largest_block(network: str) -> dict[str, float]:
    """Sizes of the block of most transitions of a network of the zoo."""
    return _sizes(count_block(b, "rooted") for b in set(blocks_of(load_graph(network), 40)))


def published_wiring() -> dict[str, float]:
    """Sizes of the largest of RandWire's random stages, whose wiring others cannot draw again."""
    return _sizes([count_block(published_block(), "rooted")])


def published_block() -> tuple[int, ...]:
    """The units of that stage, each as the bit set of those that it reads from."""
    return bare_graph(json_object(_WIRING.read_bytes()), str(_WIRING)).blocks[0].predecessors


def _sizes(counts: Iterator[BlockCounts] | Sequence[BlockCounts]) -> dict[str, float]:
    largest = max(counts, key=lambda block: (block.transitions, block.operators))
    return {
        "n": largest.operators,
        "d": largest.width,
        "bound": largest.bound,
        "transitions": largest.transitions,
        "schedules": largest.schedules,
    }


def networks(published: Mapping[str, Any], steps: Steps) -> Iterator[Row]:
    """Blocks, operators and the main kind of operator of each network (IOS, table 4.1)."""
    notes = {
        "blocks": "blocks are counted in which units can run side by side; the text does not say "
        "what it counts (its authors' implementation has 13, 6, 25 and 12 blocks, chains included)"
    }
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
                note=notes.get(quantity, ""),
            )


def network_counts(network: str) -> dict[str, float | str]:
    """How many blocks and units a network of the zoo has, and which kind most of them are."""
    graph = load_graph(network)
    wide = [block for block in blocks_of(graph, 40) if width(block) > 1]
    kinds = Counter(_KINDS.get(op.kind, op.kind) for op in graph.operators)
    return {
        "blocks": len(wide),
        "operators": len(graph),
        "kind": kinds.most_common(1)[0][0],
    }
