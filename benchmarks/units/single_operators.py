"""ONNX models of one operator each, most of them such as have no kernel of ours."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

Shape = tuple[int, ...]

_SEQUENCE: Shape = (1, 128, 512)
_IMAGE: Shape = (1, 32, 56, 56)
_SCORES: Shape = (1, 8, 128, 128)
_VOLUME: Shape = (1, 8, 16, 28, 28)
_SOUND: Shape = (1, 64, 400)
_CLASSES: Shape = (1, 21, 128, 128)
_WINDOWS: Shape = (1, 8, 7, 8, 7, 96)


def weight(*shape: int) -> Any:
    """A constant of random numbers."""
    return 0.1 * np.random.default_rng(0).standard_normal(shape).astype(np.float32)


def scales(factor: float) -> tuple[Any, Any]:
    """The region, which is none, and the scales of ``Resize``."""
    return weight(0), np.array([1, 1, factor, factor], np.float32)


#: By name the operator, its inputs (shapes, or constants) and attributes.
OPERATORS: dict[str, tuple[str, tuple[Any, ...], dict[str, Any]]] = {
    "Conv1d": ("Conv", (_SOUND, weight(64, 64, 3)), {"pads": [1, 1]}),
    "Conv1d, depthwise": ("Conv", (_SOUND, weight(64, 1, 5)), {"pads": [2, 2], "group": 64}),
    "Conv3d": ("Conv", (_VOLUME, weight(8, 8, 3, 3, 3)), {"pads": [1] * 6}),
    "ConvTranspose1d": ("ConvTranspose", (_SOUND, weight(64, 32, 4)), {"strides": [2]}),
    "ConvTranspose, depthwise": (
        "ConvTranspose",
        (_IMAGE, weight(32, 1, 4, 4)),
        {"strides": [2, 2], "group": 32},
    ),
    "ConvTranspose, dilated": (
        "ConvTranspose",
        (_IMAGE, weight(32, 16, 3, 3)),
        {"dilations": [2, 2]},
    ),
    "MaxPool1d": ("MaxPool", (_SOUND,), {"kernel_shape": [3], "strides": [2]}),
    "MaxPool3d": ("MaxPool", (_VOLUME,), {"kernel_shape": [2] * 3, "strides": [2] * 3}),
    "AveragePool3d": ("AveragePool", (_VOLUME,), {"kernel_shape": [2] * 3, "strides": [2] * 3}),
    "GlobalMaxPool": ("GlobalMaxPool", (_IMAGE,), {}),
    "GlobalAveragePool3d": ("GlobalAveragePool", (_VOLUME,), {}),
    "InstanceNormalization": ("InstanceNormalization", (_IMAGE, weight(32), weight(32)), {}),
    "LayerNormalization": ("LayerNormalization", (_SEQUENCE, weight(512), weight(512)), {}),
    "LRN": ("LRN", (_IMAGE,), {"size": 5}),
    "Softmax of channels": ("Softmax", (_CLASSES,), {"axis": 1}),
    "Softmax of columns": ("Softmax", (_SEQUENCE,), {"axis": 1}),
    "LogSoftmax": ("LogSoftmax", (_SEQUENCE,), {}),
    "ReduceMean of rows": ("ReduceMean", (_SEQUENCE,), {"axes": [2]}),
    "ReduceMean of columns": ("ReduceMean", (_SEQUENCE,), {"axes": [1]}),
    "ReduceMean of channels": ("ReduceMean", (_IMAGE,), {"axes": [1]}),
    "ReduceMax of rows": ("ReduceMax", (_SEQUENCE,), {"axes": [2]}),
    "ReduceMax of channels": ("ReduceMax", (_IMAGE,), {"axes": [1]}),
    "ArgMax of channels": ("ArgMax", (_CLASSES,), {"axis": 1}),
    "CumSum": ("CumSum", (_SEQUENCE, np.array(1)), {}),
    "MatMul of windows": ("MatMul", ((1, 4, 8, 49, 32), (1, 4, 8, 32, 49)), {}),
    "Resize, linear": (
        "Resize",
        (_IMAGE, weight(0), np.array([1, 1, 1.5, 1.5], np.float32)),
        {"mode": "linear"},
    ),
    "Resize, cubic": (
        "Resize",
        (_IMAGE, weight(0), np.array([1, 1, 2, 2], np.float32)),
        {"mode": "cubic"},
    ),
    "GridSample": ("GridSample", (_IMAGE, (1, 56, 56, 2)), {}),
    "DepthToSpace": ("DepthToSpace", (_IMAGE,), {"blocksize": 2}),
    "SpaceToDepth": ("SpaceToDepth", (_IMAGE,), {"blocksize": 2}),
    "Transpose of a volume": ("Transpose", (_VOLUME,), {"perm": [0, 2, 1, 3, 4]}),
    "Transpose of windows": ("Transpose", (_WINDOWS,), {"perm": [0, 1, 3, 2, 4, 5]}),
    "Pad, reflected": ("Pad", (_IMAGE, np.array([0, 0, 1, 1, 0, 0, 1, 1])), {"mode": "reflect"}),
    "Tile": ("Tile", (_SEQUENCE, np.array([1, 2, 1])), {}),
    "Gather": ("Gather", (weight(5000, 256), np.arange(0, 5000, 40)), {}),
    "Slice by steps": (
        "Slice",
        (_IMAGE, np.zeros(2, int), np.array([56, 56]), np.array([2, 3]), np.array([2, 2])),
        {},
    ),
    "Trilu": ("Trilu", (_SCORES,), {"upper": 0}),
    "Add of windows": ("Add", (_WINDOWS, weight(96)), {}),
    "Relu of a volume": ("Relu", (_VOLUME,), {}),
    "Elu": ("Elu", (_SCORES,), {}),
    "HardSwish": ("HardSwish", (_IMAGE,), {}),
    "PRelu": ("PRelu", (_IMAGE, weight(32, 1, 1)), {}),
    "Softplus": ("Softplus", (_SCORES,), {}),
    "Sin": ("Sin", (_SCORES,), {}),
}


def models() -> Iterator[tuple[str, onnx.ModelProto]]:
    """Each operator's name and model."""
    for name, (kind, inputs, attributes) in OPERATORS.items():
        yield name, _model(kind, inputs, attributes)


def _model(kind: str, inputs: tuple[Any, ...], attributes: dict[str, Any]) -> onnx.ModelProto:
    names = [f"x{number}" for number in range(len(inputs))]
    given = list(zip(names, inputs, strict=True))
    graph = helper.make_graph(
        [helper.make_node(kind, names, ["y"], **attributes)],
        kind,
        [
            helper.make_tensor_value_info(n, TensorProto.FLOAT, shape)
            for n, shape in given
            if isinstance(shape, tuple)
        ],
        [
            helper.make_tensor_value_info(
                "y", TensorProto.INT64 if kind == "ArgMax" else TensorProto.FLOAT, None
            )
        ],
        [numpy_helper.from_array(a, n) for n, a in given if not isinstance(a, tuple)],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    return onnx.shape_inference.infer_shapes(model)
