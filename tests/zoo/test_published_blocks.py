"""The zoo's networks have the blocks that the published implementation schedules."""

from __future__ import annotations

from functools import cache

import pytest

from benchmarks.papers.ios.counts import published_block
from tvm_ios import zoo
from tvm_ios.graph.blocks import cut_blocks
from tvm_ios.graph.op_graph import OpGraph, bits
from tvm_ios.graph.units import form_units
from tvm_ios.ios.counts import BlockCounts, count_block
from tvm_ios.onnx.graph import graph_from_onnx
from tvm_ios.zoo.cells.randwire import build_randwire


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
def test_randwire_of_a_published_wiring() -> None:
    block = published_block()
    edges = [(u, v) for v, before in enumerate(block[:-1]) for u in bits(before)]
    graph = form_units(graph_from_onnx(build_randwire(0, [(len(block) - 1, edges)])))
    assert sizes(graph) == [1, 33, 3]
    assert largest_block(graph, 33) == count_block(block, "rooted")
