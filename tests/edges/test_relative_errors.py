"""How far functions of one number are from float64, relative to the result, tails included."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
from onnx import TensorProto, helper

from relay_passes.relax.importer import import_onnx
from tests.onnx_sketch import Sketch
from tests.relax.relax_sketch import sequential_outputs
from tvm_ios.onnx.simplify import simplify

BOUND = 5e-7
#: Below this results are subnormal, or their terms are, which count as zeros.
LEAST = 4e-36
_erf: Any = np.vectorize(math.erf)


def _softplus(x: Any) -> Any:
    return np.maximum(x, 0) + np.log1p(np.exp(-np.abs(x)))


def _sigmoid(x: Any) -> Any:
    return np.exp(np.minimum(x, 0)) / (1 + np.exp(-np.abs(x)))


FUNCTIONS: dict[str, Callable[[Any], Any]] = {
    "Atan": np.arctan,
    "Cosh": np.cosh,
    "Erf": _erf,
    "Exp": np.exp,
    "Mish": lambda x: x * np.tanh(_softplus(x)),
    "Reciprocal": lambda x: 1 / x,
    "Sigmoid": _sigmoid,
    "Sinh": np.sinh,
    "Softplus": _softplus,
    "Softsign": lambda x: x / (1 + np.abs(x)),
    "Tanh": np.tanh,
    "Log": lambda x: np.log(np.abs(x)),
    "Sqrt": lambda x: np.sqrt(np.abs(x)),
    "LogSigmoid": lambda x: -_softplus(-x),
}


def _written(sketch: Sketch, kind: str) -> str:
    if kind in ("Log", "Sqrt"):
        return sketch.op(kind, sketch.op("Abs", "x"))
    if kind == "LogSigmoid":
        return sketch.op("Neg", sketch.op("Softplus", sketch.op("Neg", "x")))
    return sketch.op(kind, "x")


def test_relative_errors_are_within_the_bound() -> None:
    few = np.logspace(-36, 1.9, 400)
    x = np.concatenate([-few, few, np.linspace(-100, 100, 2001)]).astype(np.float32)
    sketch = Sketch(opset=20)
    sketch.inputs = [helper.make_tensor_value_info("x", TensorProto.FLOAT, x.shape)]
    model = sketch.model(*[_written(sketch, kind) for kind in FUNCTIONS])
    results = sequential_outputs(import_onnx(simplify(model)), [x])
    wrong: dict[str, tuple[float, float]] = {}
    for kind, ours in zip(FUNCTIONS, results, strict=True):
        with np.errstate(all="ignore"):
            right = FUNCTIONS[kind](x.astype(np.float64))
            error = np.abs(ours - right) / np.abs(right)
        normal = (np.abs(right) > LEAST) & (np.abs(right) < 3e38)
        error = np.where(normal, error, 0)
        # Where it is NaN no number may be.
        if not np.all(error <= BOUND):
            place = int(np.argmax(np.where(np.isnan(error), np.inf, error)))
            wrong[kind] = float(x[place]), float(error[place])
    assert wrong == {}
