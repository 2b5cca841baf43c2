"""Graphs read from modules of either dialect are those read from the ONNX models."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from relay_passes.pipeline import prepare
from tests.onnx_sketch import Sketch
from tvm_ios.graph.op_graph import OpGraph
from tvm_ios.graph.units import form_units
from tvm_ios.onnx.graph import graph_from_onnx
from tvm_ios.onnx.simplify import simplify


def require_same_graphs(model: Any, import_onnx: Callable[[Any], Any]) -> OpGraph:
    """Both ways lead to the same operators and units; returns the graph of operators."""
    prepared = prepare(import_onnx(model))
    ours, theirs = prepared.outliner.extraction.graph, graph_from_onnx(model)
    work = [sorted((o.kind, o.flops) for o in graph.operators) for graph in (ours, theirs)]
    assert work[0] == work[1]
    assert ours.fingerprint == theirs.fingerprint
    units = form_units(theirs)
    assert prepared.units.fingerprint == units.fingerprint
    assert [u.kind for u in prepared.units.operators] == [u.kind for u in units.operators]
    return ours


def _several(sketch: Sketch) -> tuple[str, ...]:
    y = sketch.op("Relu", sketch.conv("x", 6, 8))
    return sketch.conv(y, 8, 4), y, sketch.op("MaxPool", y, kernel_shape=[2, 2], strides=[2, 2])


def _split(sketch: Sketch) -> tuple[str, ...]:
    a, b, c = sketch.op("Split", "x", sketch.const(np.array([1, 2, 3])), outputs=3, axis=1)
    return sketch.op("Concat", sketch.op("Relu", c), b, sketch.op("Sigmoid", a), axis=1), a


def _mixed(sketch: Sketch) -> tuple[str, ...]:
    bounds = [sketch.const(np.float32(bound)) for bound in (0, 6)]
    y = sketch.op("Clip", sketch.conv("x", 6, 6, group=6), *bounds)
    y = sketch.op("Add", y, sketch.op("AveragePool", "x", kernel_shape=[3, 3], pads=[1, 1, 1, 1]))
    y = sketch.op("Reshape", sketch.op("GlobalAveragePool", y), sketch.const(np.array([1, -1])))
    return (sketch.op("Softmax", sketch.op("Gemm", y, sketch.normal(6, 10), sketch.normal(10))),)


def _normalised(sketch: Sketch) -> tuple[str, ...]:
    return (sketch.op("LRN", sketch.conv("x", 6, 8), size=3, alpha=0.02, beta=0.5, bias=2.0),)


def _activated(sketch: Sketch) -> tuple[str, ...]:
    y = sketch.op("HardSwish", sketch.norm(sketch.op("MaxPool", "x", kernel_shape=[1, 1]), 6))
    gate = sketch.op("GlobalAveragePool", sketch.op("HardSwish", sketch.conv(y, 6, 8)))
    gate = sketch.op("HardSigmoid", sketch.conv(gate, 8, 6, 1), alpha=0.25, beta=0.4)
    return (sketch.op("Mul", y, gate),)


def _enlarged(sketch: Sketch) -> tuple[str, ...]:
    weight = sketch.normal(6, 4, 3, 3)
    y = sketch.op("ConvTranspose", "x", weight, sketch.normal(4), strides=[2, 2], pads=[1, 0, 0, 1])
    scales = sketch.const([1.0, 1.0, 2.0, 2.0])
    z = sketch.op("Resize", sketch.op("Relu", y), "", scales, mode="linear")
    return z, sketch.op("Resize", y, "", scales, coordinate_transformation_mode="asymmetric")


def _shuffled(sketch: Sketch) -> tuple[str, ...]:
    y = sketch.conv("x", 6, 6, 1, group=3)
    y = sketch.op("Reshape", y, sketch.const(np.array([1, 3, 2, 8, 8])))
    y = sketch.op("Transpose", y, perm=[0, 2, 1, 3, 4])
    return (sketch.op("Reshape", y, sketch.const(np.array([1, 6, 8, 8]))),)


def _leaky(sketch: Sketch) -> tuple[str, ...]:
    y = sketch.op("Clip", sketch.norm(sketch.conv("x", 6, 6), 6), sketch.const(0.0))
    z = sketch.op("LeakyRelu", sketch.op("HardSwish", y), alpha=0.1)
    return (sketch.op("LRN", z, size=3), sketch.op("Softmax", z, axis=-1))


def _moved(sketch: Sketch) -> tuple[str, ...]:
    y = sketch.op("Pad", "x", sketch.const(np.array([0, 0, 1, 0, 0, 0, 0, 2])), sketch.const(0.5))
    bounds = (sketch.const(np.array([n])) for n in (-4, 6, 2, 1))
    y = sketch.op("Transpose", sketch.op("Slice", y, *bounds), perm=[0, 2, 1, 3])
    return (sketch.op("ReduceMean", y, axes=[-1], keepdims=0),)


def _multiplied(sketch: Sketch) -> tuple[str, ...]:
    """A layer norm, products with weights, one of data, and a row gathered."""
    y = sketch.op("LayerNormalization", "x", sketch.positive(8), sketch.normal(8))
    y = sketch.op("MatMul", y, sketch.normal(8, 8))
    z = sketch.op("MatMul", y, sketch.op("Sigmoid", y))
    z = sketch.op("MatMul", z, sketch.normal(1, 6, 8, 5))
    return (sketch.op("Gather", z, sketch.const(np.array([-1, 0])), axis=2),)


SMALL_MODELS = {
    "several outputs": _several,
    "split": _split,
    "mixed": _mixed,
    "normalised": _normalised,
    "activated": _activated,
    "leaky": _leaky,
    "enlarged": _enlarged,
    "shuffled": _shuffled,
    "moved": _moved,
    "multiplied": _multiplied,
}


def small_model(name: str) -> Any:
    """One of these, of an image of 8 x 8 pixels and 6 channels."""
    sketch = Sketch(1, 6, 8, 8)
    return simplify(sketch.model(*SMALL_MODELS[name](sketch)))
