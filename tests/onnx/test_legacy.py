"""Operators of opsets that no runtime of today has, against what their text says."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from onnx import TensorProto, helper, numpy_helper

from tests.onnx_sketch import run_on
from tests.refusals import refused
from tvm_ios.files.array_files import Array
from tvm_ios.graph.elements import GraphError
from tvm_ios.onnx.simplify import simplify
from tvm_ios.onnx.tolerated import normalised

node = helper.make_node
rng = np.random.default_rng(0)
X = rng.standard_normal((2, 3, 4, 5), dtype=np.float32)
CHANNELS = rng.standard_normal(3, dtype=np.float32)
PLANES = rng.standard_normal((3, 4), dtype=np.float32)
LAST = rng.standard_normal(5, dtype=np.float32)
SCALES = rng.uniform(0.5, 1.5, (4, 3)).astype(np.float32)
COLUMN = (3, 1, 1)
REST = {f"s{i}": SCALES[i] for i in range(4)}
NORMALISED = (X - SCALES[2].reshape(COLUMN)) / np.sqrt(SCALES[3].reshape(COLUMN) + 1e-5)

#: By name the opset, the operators from x to y, the result, and the weights.
CASES: dict[str, tuple[int, list[Any], Any, dict[str, Array]]] = {
    "add-channels": (
        6,
        [node("Add", ["x", "b"], ["y"], broadcast=1, axis=1)],
        X + CHANNELS.reshape(COLUMN),
        {"b": CHANNELS},
    ),
    "mul-planes": (
        6,
        [node("Mul", ["x", "b"], ["y"], broadcast=1, axis=1)],
        X * PLANES[..., None],
        {"b": PLANES},
    ),
    "sub-from-the-end": (
        1,
        [node("Sub", ["x", "b"], ["y"], broadcast=1, axis=-3, consumed_inputs=[0, 0])],
        X - CHANNELS.reshape(COLUMN),
        {"b": CHANNELS},
    ),
    "div-last": (6, [node("Div", ["x", "b"], ["y"], broadcast=1)], X / LAST, {"b": LAST}),
    "after-others": (
        6,
        [
            node("Less", ["x", "b"], ["t"], broadcast=1, axis=1),
            node("Cast", ["t"], ["u"], to=1),
            node("Add", ["u", "b"], ["y"], broadcast=1, axis=1),
        ],
        (CHANNELS.reshape(COLUMN) > X) + CHANNELS.reshape(COLUMN),
        {"b": CHANNELS},
    ),
    "prelu": (
        6,
        [node("PRelu", ["x", "b"], ["y"])],
        np.where(X < 0, CHANNELS.reshape(COLUMN) * X, X),
        {"b": CHANNELS},
    ),
    "gemm": (
        6,
        [
            node("Reshape", ["x", "s"], ["t"]),
            node("Gemm", ["t", "b", "c"], ["y"], transB=1, broadcast=1),
        ],
        X.reshape(10, 12) @ np.tile(PLANES.reshape(12), (3, 1)).T + CHANNELS,
        {"s": np.array([10, 12]), "b": np.tile(PLANES.reshape(12), (3, 1)), "c": CHANNELS},
    ),
    "norm": (
        6,
        [node("BatchNormalization", ["x", *REST], ["y"], is_test=1)],
        NORMALISED * SCALES[0].reshape(COLUMN) + SCALES[1].reshape(COLUMN),
        REST,
    ),
    "reshape": (1, [node("Reshape", ["x"], ["y"], shape=[0, -1, 2])], X.reshape(2, 30, 2), {}),
    "cast": (1, [node("Cast", ["x"], ["y"], to="FLOAT")], X, {}),
    "concat": (1, [node("Concat", ["x", "x"], ["y"])], np.concatenate([X, X], 1), {}),
    "dropout": (1, [node("Dropout", ["x"], ["y"], is_test=1, consumed_inputs=[0])], X, {}),
    "pool": (
        1,
        [node("GlobalLpPool", ["x"], ["y"], p=2.0)],
        np.sqrt((X**2).sum((2, 3), keepdims=True)),
        {},
    ),
    "pad": (
        1,
        [node("Pad", ["x"], ["y"], paddings=[0, 0, 1, 0, 0, 0, 0, 2], value=1.5)],
        np.pad(X, ((0, 0), (0, 0), (1, 0), (0, 2)), constant_values=1.5),
        {},
    ),
    "selu": (
        1,
        [node("Selu", ["x"], ["y"])],
        1.0507 * np.where(X > 0, X, 1.6732 * np.expm1(X)),
        {},
    ),
    "selu-6": (
        6,
        [node("Selu", ["x"], ["y"])],
        1.05070102 * np.where(X > 0, X, 1.67326319 * np.expm1(X)),
        {},
    ),
    "split": (
        1,
        [node("Split", ["x", "s"], ["t", "y"], axis=1)],
        X[:, 1:],
        {"s": np.array([1, 2], np.float32)},
    ),
    "tile": (
        1,
        [node("Tile", ["x", "n", "a"], ["y"])],
        np.tile(X, (1, 1, 3, 1)),
        {"n": np.array([3], np.float32), "a": np.array([2], np.float32)},
    ),
    "upsample": (
        1,
        [node("Upsample", ["x"], ["y"], height_scale=2.0, width_scale=3.0)],
        X.repeat(2, 2).repeat(3, 3),
        {},
    ),
}


def model_of(opset: int, nodes: list[Any], weights: dict[str, Array]) -> Any:
    """As old files are written: weights are inputs, too."""
    initializers = [numpy_helper.from_array(array, name) for name, array in weights.items()]
    kinds = [helper.make_tensor_value_info(w.name, w.data_type, w.dims) for w in initializers]
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, X.shape)
    y = helper.make_tensor_value_info("y", TensorProto.FLOAT, None)
    graph = helper.make_graph(nodes, "old", [x, *kinds], [y], initializers)
    opsets = [helper.make_opsetid("", opset)]
    return helper.make_model(graph, opset_imports=opsets, ir_version=3)


@pytest.mark.parametrize("name", CASES)
def test_an_old_operator_is_one_of_today(name: str) -> None:
    opset, nodes, expected, weights = CASES[name]
    model = model_of(opset, nodes, weights)
    for read in (normalised(model), simplify(model)):
        (y,) = run_on(read, {"x": X})
        assert y.shape == expected.shape
        assert np.allclose(y, expected, atol=1e-5)


def test_what_has_no_form_is_named() -> None:
    nodes = [node("BatchNormalization", ["x", *REST], ["y", "m", "v", "n", "w"])]
    with refused(GraphError, "BatchNormalization", "training", "opset"):
        simplify(model_of(6, nodes, REST))
    with refused(GraphError, "Split", "'x'", "computed"):
        simplify(model_of(1, [node("Split", ["x", "x"], ["t", "y"])], {}))
