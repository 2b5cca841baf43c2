"""Published cells are written as their genotypes say."""

from __future__ import annotations

from collections import Counter

import pytest

from tests.refusals import refused
from tvm_ios.graph.op_graph import OpGraph
from tvm_ios.onnx.graph import graph_from_onnx
from tvm_ios.zoo.cells.genotype import CellGenotype, genotype
from tvm_ios.zoo.writing.network import ImageNetwork


def cell_graph(cell: CellGenotype, stride: int, channels: int = 8) -> OpGraph:
    net = ImageNetwork("cell", 0, (channels, 12, 12))
    before = net.image("before", (channels, 12, 12))
    if stride == 2:
        result = cell.reduction(net, net.input, before, channels)
    else:
        result = cell.normal(net, net.input, before, channels)
    model = net.finish(result.value, (1, result.channels, result.height, result.width))
    return graph_from_onnx(model)


def test_words_become_operations() -> None:
    cell = genotype("sep3 0, skip 1; max3 2, avg3 0", (2, 3))
    assert cell == CellGenotype((("sep3", 0), ("skip", 1), ("max3", 2), ("avg3", 0)), (2, 3))


def test_a_separable_convolution_is_applied_twice() -> None:
    kinds = Counter(op.kind for op in cell_graph(genotype("sep3 0, skip 1", (2,)), 1).operators)
    assert kinds["conv2d"] == 2 + 4
    assert kinds["add"] == 1


def test_only_states_0_and_1_are_halved_in_a_reduction_cell() -> None:
    graph = cell_graph(genotype("max3 0, avg3 1; sep5 2, skip 0", (2, 3)), 2)
    output = graph.tensors[graph.outputs[0]]
    assert output.shape == (1, 16, 6, 6)
    strides = Counter(
        op.attrs["strides"] for op in graph.operators if op.kind in ("max_pool2d", "avg_pool2d")
    )
    assert strides[(2, 2)] == 4  # both poolings, and the two paths of the skip
    assert all(op.attrs["strides"] == (1, 1) for op in graph.operators if op.kind == "conv2d")


@pytest.mark.parametrize(
    ("name", "kernels"),
    [("1x7_7x1", {(1, 7), (7, 1)}), ("dil3", {(3, 3), (1, 1)}), ("sep7", {(7, 7), (1, 1)})],
)
@pytest.mark.parametrize("stride", [1, 2])
def test_operations_keep_the_extents(name: str, kernels: set[tuple[int, int]], stride: int) -> None:
    graph = cell_graph(genotype(f"{name} 0, {name} 1", (2,)), stride)
    assert graph.tensors[graph.outputs[0]].shape == (1, 8, 12 // stride, 12 // stride)
    extents = {
        graph.tensors[op.inputs[1]].shape[2:] for op in graph.operators if op.kind == "conv2d"
    }
    assert extents == kernels | {(1, 1)}


def test_an_unknown_operation_is_named() -> None:
    with refused(ValueError, "'sep9x'"):
        cell_graph(genotype("sep9x 0, skip 1", (2,)), 1)
