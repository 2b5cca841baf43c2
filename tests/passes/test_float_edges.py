"""Infinities and NaN come out as ONNX says, whatever computes them."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from onnx import TensorProto
from onnx.reference import ReferenceEvaluator

from relay_passes.pipeline import apply_schedule, prepare
from relay_passes.relax.importer import import_onnx
from runtime_ext.build import build
from tests.onnx_sketch import Sketch
from tests.relax.relax_sketch import outputs_of
from tvm_ios.onnx.simplify import simplify
from tvm_ios.policies.sequential import sequential_schedule

#: An operator of ``x``, with an input of four axes.
Operator = Callable[[Sketch], str]

ELEMENTWISE: dict[str, Operator] = {
    "relu": lambda s: s.op("Relu", "x"),
    "clip": lambda s: s.op("Clip", "x", s.const(np.float32(-1)), s.const(np.float32(1))),
    "max of a number": lambda s: s.op("Max", "x", s.const(np.float32(0.5))),
    "min of a number": lambda s: s.op("Min", s.const(np.float32(0.5)), "x"),
    "max of tensors": lambda s: s.op("Max", "x", s.op("Mul", "x", s.normal(3, 1, 1))),
    "min of tensors": lambda s: s.op("Min", s.op("Mul", "x", s.normal(3, 1, 1)), "x"),
    "convolution and relu": lambda s: s.op("Relu", s.conv("x", 3, 4, kernel=1)),
    "leaky relu": lambda s: s.op("LeakyRelu", "x"),
}
REDUCTIONS: dict[str, Operator] = {
    "reduce max": lambda s: s.op("ReduceMax", "x", axes=[3], keepdims=0),
    "reduce min": lambda s: s.op("ReduceMin", "x", axes=[1, 2]),
    "arg max": lambda s: s.op("Cast", s.op("ArgMax", "x", axis=3), to=TensorProto.FLOAT),
    "arg max, last": lambda s: s.op(
        "Cast", s.op("ArgMax", "x", axis=3, select_last_index=1), to=TensorProto.FLOAT
    ),
    "arg min": lambda s: s.op("Cast", s.op("ArgMin", "x", axis=2), to=TensorProto.FLOAT),
    "max pool": lambda s: s.op("MaxPool", "x", kernel_shape=[3, 3], pads=[1, 1, 1, 1]),
    "max pool of rows": lambda s: s.op(
        "MaxPool",
        s.op("Reshape", "x", s.const(np.array([2, 3, 40]))),
        kernel_shape=[3],
        strides=[2],
        pads=[1, 1],
    ),
}


def check(operator: Operator, x: np.ndarray) -> None:
    sketch = Sketch(*x.shape)
    model = sketch.model(operator(sketch))
    expected = ReferenceEvaluator(model).run(None, {"x": x})
    prepared = prepare(import_onnx(simplify(model)))
    module = apply_schedule(prepared, sequential_schedule(prepared.units))
    for lanes in (1, 2):
        outputs = outputs_of(build(module, lanes=lanes), [x])
        np.testing.assert_allclose(outputs[0], expected[0], rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("operator", ELEMENTWISE.values(), ids=ELEMENTWISE)
def test_nan_passes(operator: Operator) -> None:
    x = np.random.default_rng(0).standard_normal((2, 3, 5, 8)).astype(np.float32)
    x[0, 1, 2] = np.nan
    x[1, 0, 0, 0], x[1, 1, 0, 0] = np.inf, -np.inf
    check(operator, x)


@pytest.mark.parametrize("number", [np.inf, -np.inf, -3.4028235e38])
@pytest.mark.parametrize("operator", REDUCTIONS.values(), ids=REDUCTIONS)
def test_reductions_of_infinities_alone(operator: Operator, number: float) -> None:
    x = np.random.default_rng(0).standard_normal((2, 3, 5, 8)).astype(np.float32)
    x[0] = number
    check(operator, x)
