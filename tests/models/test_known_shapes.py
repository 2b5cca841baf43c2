"""Extents that a model leaves open, and that nobody has to give."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from tests.refusals import refused
from tvm_ios.graph.elements import GraphError
from tvm_ios.models.load import load_onnx
from tvm_ios.models.source import ModelSource
from tvm_ios.onnx import known_shapes
from tvm_ios.shapes.input_shapes import InputShapeError, assumed_batch

#: By operator the weights, what the node states, the input's shape, and what is known of it.
OPEN: dict[str, tuple[tuple[int, ...], dict[str, Any], list[str | int], list[int]]] = {
    "MatMul": ((8, 5), {}, ["batch", 4, "width"], [1, 4, 8]),
    "Gemm": ((5, 8), {"transB": 1}, ["batch", "width"], [1, 8]),
    "Conv": ((6, 3, 3, 3), {"group": 2}, ["batch", "channels", 9, 9], [1, 6, 9, 9]),
    "ConvTranspose": ((6, 3, 3, 3), {}, ["batch", "channels", 9, 9], [1, 6, 9, 9]),
}


def saved(kind: str, shape: list[str | int], folder: Path) -> str:
    extents, states, *_ = OPEN[kind]
    weight = numpy_helper.from_array(np.ones(extents, np.float32), "w")
    nodes = [helper.make_node("Relu", ["x"], ["r"]), helper.make_node(kind, ["x", "w"], ["y"])]
    nodes[1].attribute.extend(helper.make_attribute(n, v) for n, v in states.items())
    x, r, y = (
        helper.make_tensor_value_info(name, TensorProto.FLOAT, dims)
        for name, dims in (("x", shape), ("r", None), ("y", None))
    )
    graph = helper.make_graph(nodes, "g", [x], [y, r], [weight])
    opsets = [helper.make_opsetid("", 17)]
    onnx.save(helper.make_model(graph, opset_imports=opsets, ir_version=8), folder / "m.onnx")
    return str(folder / "m.onnx")


def extents_of(model: Any) -> list[int]:
    return [extent.dim_value for extent in model.graph.input[0].type.tensor_type.shape.dim]


@pytest.mark.parametrize("kind", OPEN)
def test_a_batch_is_one_and_weights_say_the_rest(
    kind: str, tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    *_, shape, known = OPEN[kind]
    warn: Any = known_shapes.warn_once
    monkeypatch.setattr(known_shapes, "warn_once", warn.__wrapped__)
    with caplog.at_level(logging.WARNING):
        assert extents_of(load_onnx(saved(kind, shape, tmp_path))) == known
    assert [record.message for record in caplog.records] == [
        "m leaves its batch open, which is taken as 1: --batch gives another"
    ]
    model = ModelSource(saved(kind, shape, tmp_path), batch=3)
    assert extents_of(load_onnx(model)) == [3, *known[1:]]


@pytest.mark.parametrize("kind", OPEN)
def test_another_width_is_named(kind: str, tmp_path: Path) -> None:
    *_, shape, known = OPEN[kind]
    axis = next(i for i in range(1, len(shape)) if isinstance(shape[i], str))
    given = [*known[:axis], known[axis] + 1, *known[axis + 1 :]]
    model = ModelSource(saved(kind, shape, tmp_path), shapes={"x": tuple(given)})
    with refused(GraphError, kind, "'x'", str(given[axis]), f"want {known[axis]} in", "shapes"):
        load_onnx(model)


@pytest.mark.parametrize(
    ("declared", "fixed", "assumed"),
    [
        ({"x": ["batch", 3]}, {}, {"x": (1, 3)}),
        ({"x": [None, 3]}, {}, {"x": (1, 3)}),
        ({"x": ["n", 3], "lengths": ["n"], "scale": [4]}, {}, {"x": (1, 3), "lengths": (1,)}),
        ({"x": ["batch_size"]}, {}, {"x": (1,)}),
        ({"element": ["element"]}, {}, {}),
        ({"x": [None]}, {}, {}),
        ({"x": ["seq_len", 8]}, {}, {}),
        ({"x": ["batch", "length"]}, {}, {}),
        ({"x": ["batch", 3], "y": None}, {}, {}),
        ({"x": ["batch", 3], "y": ["batch", 4]}, {"y": (2, 4)}, {}),
        ({"x": [4, 3]}, {}, {}),
    ],
    ids=str,
)
def test_what_is_a_batch(declared: Any, fixed: Any, assumed: Any) -> None:
    assert assumed_batch(declared, fixed) == assumed


def test_no_batch_of_one_is_advised_where_there_is_none(tmp_path: Path) -> None:
    path = saved("Gemm", ["tokens", "width"], tmp_path)
    with refused(InputShapeError, "'x'", "dimension 0", "x:tokens,", "number for tokens"):
        load_onnx(path)
