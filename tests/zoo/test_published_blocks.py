"""The zoo's networks have the blocks that the published implementation schedules."""

from __future__ import annotations

import json
import os
from functools import cache
from pathlib import Path

import pytest

from tvm_ios import zoo
from tvm_ios.graph.blocks import cut_blocks
from tvm_ios.graph.op_graph import OpGraph, bits
from tvm_ios.graph.units import form_units
from tvm_ios.ios.counts import BlockCounts, count_block
from tvm_ios.onnx.graph import graph_from_onnx
from tvm_ios.zoo.cells.randwire import Wiring, build_randwire


@cache
def units_of(name: str) -> OpGraph:
    return form_units(graph_from_onnx(zoo.build(name)))


def sizes(graph: OpGraph) -> list[int]:
    return [block.bit_count() for block in cut_blocks(graph)]


def largest_block(graph: OpGraph, operators: int) -> BlockCounts:
    """Counts of the block with the most transitions among those of that many units."""
    counts_of: dict[tuple[int, ...], BlockCounts] = {}
    for block in cut_blocks(graph):
        if block.bit_count() != operators:
            continue
        number = {unit: position for position, unit in enumerate(bits(block))}
        key = tuple(
            sum(1 << number[p] for p in bits(graph.predecessors[unit] & block))
            for unit in bits(block)
        )
        if key not in counts_of:
            counts_of[key] = count_block(key, "rooted")
    return max(counts_of.values(), key=lambda counts: counts.transitions)


def test_squeezenet() -> None:
    graph = units_of("squeezenet")
    assert len(graph) == 50
    assert sizes(graph) == [2, 6, 5, 6, 1, 5, 6, 5, 6, 1, 5, 2]
    counts = largest_block(graph, 6)
    assert (counts.operators, counts.width, counts.transitions) == (6, 3, 51)


def test_inception_v3() -> None:
    graph = units_of("inception_v3")
    assert len(graph) == 119 + 1  # and the classifier
    assert sizes(graph) == [7, 9, 9, 9, 6, 12, 12, 12, 12, 8, 11, 11, 2]
    counts = largest_block(graph, 11)
    assert (counts.operators, counts.width, counts.transitions) == (11, 6, 4871)


def test_nasnet_cells() -> None:
    graph = units_of("nasnet_cell")
    kinds = [op.kind for op in graph.operators]
    assert kinds.count("relu+conv2d+conv2d+bias_add") == 20
    assert kinds.count("avg_pool2d") == 6  # the two equal ones of a cell are two
    assert sizes(graph) == [1, 17, 16, 2]


@pytest.mark.slow
def test_nasnet() -> None:
    graph = units_of("nasnet_a")
    assert len(graph) == 374
    cells = [18, *[16] * 5]
    assert sizes(graph) == [1, 18, 21, *cells, 19, *cells, 19, *cells, 2]
    counts = largest_block(graph, 18)
    assert (counts.operators, counts.width, counts.transitions) == (18, 8, 307841)


@pytest.mark.slow
def test_randwire() -> None:
    graph = units_of("randwire")
    assert sizes(graph) == [1, 17, 33, 33, 33, 3]
    counts = largest_block(graph, 33)
    assert counts.width == 8


@pytest.mark.slow
def test_randwire_of_the_published_wirings() -> None:
    shared = os.environ.get("TVM_IOS_SHARED", Path(__file__).resolve().parents[3] / "shared")
    folder = Path(shared) / "data" / "randwire"
    if not folder.is_dir():
        pytest.skip("the published wirings are not here: set TVM_IOS_SHARED")
    graph = form_units(
        graph_from_onnx(build_randwire(0, map(read_wiring, sorted(folder.iterdir()))))
    )
    # The first stage has one last node, so nothing needs to be summed after it.
    assert sizes(graph) == [1, 16, 33, 33, 33, 3]
    published = json.loads((Path(shared) / "data/ios-graphs/randwire.json").read_text())
    by_hand = [
        count_block(predecessors(block["operators"], block["edges"]), "rooted")
        for block in published["blocks"]
        if block["operators"] == 33
    ]
    best = max(by_hand, key=lambda counts: counts.transitions)
    assert (best.width, f"{best.transitions:.1e}") == (8, "1.2e+06")
    assert largest_block(graph, 33) == best


def read_wiring(path: Path) -> Wiring:
    nodes, _, *numbers = map(int, path.read_text().split())
    return nodes, list(zip(numbers[::2], numbers[1::2], strict=True))


def predecessors(operators: int, edges: list[list[int]]) -> list[int]:
    masks = [0] * operators
    for source, target in edges:
        masks[target] |= 1 << source
    return masks
