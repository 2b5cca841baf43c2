"""The networks have as many parameters and operators as their publications say."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable
from typing import Any

import onnx
import pytest

from tvm_ios import zoo
from tvm_ios.models.load import load_graph
from tvm_ios.onnx.graph import graph_from_onnx
from tvm_ios.zoo.published import PUBLISHED, PublishedCount

#: Those that are built and counted within a second or two.
FAST = ("nasnet_a_mobile", "darts", "resnet34", "mobilenet_v2", "squeezenet", "shufflenet_v2")


def parameters(model: Any) -> int:
    """Trainable numbers: all floats of tensors but statistics of batch norms and fixed tables."""
    return sum(
        math.prod(tensor.dims)
        for tensor in model.graph.initializer
        if tensor.data_type == onnx.TensorProto.FLOAT
        and tensor.dims
        and not tensor.name.endswith((".mean", ".var", ".fixed"))
    )


def count(row: PublishedCount) -> float:
    if row.quantity == "units":
        return len(load_graph(row.network))
    model = zoo.build(row.network)
    if row.quantity == "parameters":
        return parameters(model)
    kinds = Counter(node.op_type for node in model.graph.node)
    if row.quantity == "convolutions":
        return kinds["Conv"]
    if row.quantity == "products":
        return kinds["MatMul"] + kinds["Gemm"]
    operators = graph_from_onnx(model).operators
    return sum(op.flops for op in operators if op.kind in ("conv2d", "dense", "matmul")) / 2


def parametrized() -> Iterable[Any]:
    for row in PUBLISHED:
        marks = [] if row.network in FAST else [pytest.mark.slow]
        yield pytest.param(row, marks=marks, id=f"{row.network}-{row.quantity}")


@pytest.mark.parametrize("row", list(parametrized()))
def test_counts_are_as_published(row: PublishedCount) -> None:
    assert count(row) == pytest.approx(row.value, rel=row.within, abs=0)


def test_every_row_names_a_network_and_says_why_it_differs() -> None:
    assert len({(row.network, row.quantity) for row in PUBLISHED}) == len(PUBLISHED)
    for row in PUBLISHED:
        assert row.network in zoo.names()
        # Rounding explains three parts of a hundred; more needs a reason.
        assert row.note or row.within <= 0.03


@pytest.mark.slow
def test_blocks_of_resnext_are_branches() -> None:
    """A stem, 9 blocks of 16 branches of 2 convolutions, 9 joins, 9 sums, 2 shortcuts, the head."""
    kinds = Counter(op.kind for op in load_graph("resnext29_branches").operators)
    # Each of both shortcuts is a pooling and zeros around its channels: one operator published,
    # two units here.
    assert kinds.pop("pad") == 2
    assert sum(kinds.values()) == 311
    assert kinds["concat"] == 9
    assert kinds["avg_pool2d"] == 2


def test_a_cell_of_lstm_tc_has_eight_products() -> None:
    kinds = Counter(node.op_type for node in zoo.build("lstm_gates_small").graph.node)
    assert kinds["MatMul"] == 2 * 6 * 8
    assert kinds["Tanh"] == 2 * 6 * 2
