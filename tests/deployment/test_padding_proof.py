"""Whether rows of a batch are independent, against programs that are run on other rows."""

from __future__ import annotations

import pytest

from tvm_ios.graph.elements import Operator, Tensor
from tvm_ios.graph.op_graph import OpGraph
from tvm_ios.graphturbo.batch_rows import treats_rows_alone
from tvm_ios.models.load import load_operators
from tvm_ios.models.source import ModelSource
from tvm_ios.shapes.alternatives import alternative_shapes


def graph(kind: str, *shapes: tuple[int, ...], **attrs: object) -> OpGraph:
    """One operator of inputs of these shapes; the last one is of its result."""
    tensors = tuple(Tensor(f"t{n}", shape) for n, shape in enumerate(shapes))
    last = len(shapes) - 1
    operator = Operator("op", kind, tuple(range(last)), (last,), attrs)  # pyright: ignore
    return OpGraph("g", (operator,), tensors, tuple(range(last)), (last,))


@pytest.mark.parametrize(
    ("operators", "alone"),
    [
        (graph("relu", (3, 4), (3, 4)), True),
        (graph("softmax", (3, 4), (3, 4), axis=1), True),
        (graph("softmax", (3, 4), (3, 4), axis=0), False),
        (graph("transpose", (3, 3), (3, 3), perm=(1, 0)), False),
        (graph("reshape", (3, 4), (3, 2, 2)), True),
        (graph("reshape", (4, 3), (2, 6)), False),
        (graph("mean", (3, 4), (3, 1), axes=(1,), keepdims=1), True),
        (graph("mean", (3, 4), (1, 4), axes=(0,), keepdims=1), False),
        (graph("matmul", (3, 3), (3, 3), (3, 3)), False),
        (graph("slice", (3, 4), (3, 4), axes=(0,), starts=(2,), steps=(-1,)), False),
        (graph("someone_elses", (3, 4), (3, 4)), False),
    ],
)
def test_of_single_operators(operators: OpGraph, *, alone: bool) -> None:
    assert treats_rows_alone(operators) is alone


def test_of_networks() -> None:
    assert treats_rows_alone(load_operators(ModelSource("inception_block", batch=3)))
    assert not treats_rows_alone(load_operators(ModelSource("lstm_small")))


def test_alternatives_are_all_combinations() -> None:
    assert alternative_shapes(["x:1,{2,3}", "y:{4,5}"]) == [
        {"x": (1, 2), "y": (4,)},
        {"x": (1, 2), "y": (5,)},
        {"x": (1, 3), "y": (4,)},
        {"x": (1, 3), "y": (5,)},
    ]
    # As bash expands `--shape x:1,{2,3}`.
    assert alternative_shapes(["x:1,2", "x:1,3"]) == alternative_shapes(["x:1,{2,3}"])
    assert alternative_shapes([]) == [{}]
