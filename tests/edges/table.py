"""Operators that compute with floating-point numbers, and the numbers at which they go wrong."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from itertools import product
from typing import Any

import numpy as np
from onnx import TensorProto

from tests.onnx_sketch import Sketch
from tvm_ios.files.array_files import Array

#: Makes a float32 result of values.
Operator = Callable[..., str]

LARGEST = float(np.finfo(np.float32).max)
NUMBERS = (
    *(np.nan, np.inf, -np.inf, LARGEST, -LARGEST, 0.0, -0.0, 1.0, -1.0, 0.5, -0.5, 2.5, -2.5),
    *(3.0, -3.0, 100.0, -100.0, 1e20, -1e20, 4e9),
)


def numbers() -> dict[str, Array]:
    """All pairs of the numbers as ``x`` and ``y``, and rows of three of them."""
    x, y = (np.array(grid, np.float32) for grid in np.meshgrid(NUMBERS, NUMBERS, indexing="ij"))
    few = (np.nan, np.inf, -np.inf, LARGEST, 1.0, -2.0)
    return {"x": x, "y": y, "rows": np.array([*product(few, repeat=3)], np.float32)}


def _op(kind: str, s: Sketch, *values: str, **attributes: Any) -> str:
    return s.op(kind, *values, **attributes)


def _told(kind: str, s: Sketch, *values: str) -> str:
    """A truth value as a number."""
    return s.op("Cast", s.op(kind, *values), to=TensorProto.FLOAT)


def _with(kind: str, number: float, s: Sketch, x: str, *, first: bool = False) -> str:
    constant = s.const(np.float32(number))
    return s.op(kind, constant, x) if first else s.op(kind, x, constant)


def _where(kind: str, s: Sketch, x: str, y: str) -> str:
    return s.op("Where", s.op(kind, x, y), x, y)


UNARY: dict[str, Operator] = {
    **{
        kind: partial(_op, kind)
        for kind in (
            *("Abs", "Acos", "Acosh", "Asin", "Asinh", "Atan", "Atanh", "Ceil", "Celu", "Cos"),
            *("Cosh", "Elu", "Erf", "Exp", "Floor", "Gelu", "HardSigmoid", "HardSwish"),
            *("LeakyRelu", "Log", "Mish", "Neg", "Reciprocal", "Relu", "Round", "Selu", "Shrink"),
            *("Sigmoid", "Sign", "Sin", "Sinh", "Softplus", "Softsign", "Sqrt", "Tan", "Tanh"),
            "ThresholdedRelu",
        )
    },
    "Gelu, tanh": partial(_op, "Gelu", approximate="tanh"),
    "IsNaN": partial(_told, "IsNaN"),
    "IsInf": partial(_told, "IsInf"),
    "Clip": lambda s, x: s.op("Clip", x, s.const(np.float32(-1)), s.const(np.float32(1))),
    "Clip above": lambda s, x: s.op("Clip", x, "", s.const(np.float32(1))),
    "Clip below": lambda s, x: s.op("Clip", x, s.const(np.float32(-1))),
    "PRelu": lambda s, x: s.op("PRelu", x, s.const(np.float32(0.25))),
    **{
        f"{kind} {number:g}": partial(_with, kind, number)
        for kind, of in {
            "Add": (0.0, 1.0),
            "Sub": (0.0,),
            "Mul": (0.0, 1.0, -1.0, 2.0),
            "Div": (1.0, 0.0),
            "Pow": (0.0, 1.0, 2.0, 3.0, 0.5, -1.0, -0.5, 0.25, 0.75),
            "Max": (0.0, -np.inf),
            "Min": (0.0, np.inf),
            "Mod": (),
        }.items()
        for number in of
    },
    **{
        f"{number:g} {kind}": partial(_with, kind, number, first=True)
        for kind, of in {
            "Sub": (0.0,),
            "Div": (0.0, 1.0),
            "Pow": (1.0, 2.0),
            "Max": (0.0,),
            "Min": (0.0,),
        }.items()
        for number in of
    },
}
BINARY: dict[str, Operator] = {
    **{kind: partial(_op, kind) for kind in ("Add", "Sub", "Mul", "Div", "Max", "Min", "Pow")},
    **{kind: partial(_op, kind) for kind in ("Mean", "Sum", "PRelu")},
    "Mod, fmod": partial(_op, "Mod", fmod=1),
    **{
        kind: partial(_told, kind)
        for kind in ("Equal", "Greater", "GreaterOrEqual", "Less", "LessOrEqual")
    },
    "Where Equal": partial(_where, "Equal"),
    "Where Less": partial(_where, "Less"),
    "Where GreaterOrEqual": partial(_where, "GreaterOrEqual"),
}


def _reduce(kind: str, s: Sketch, x: str) -> str:
    return s.op(kind, x, s.const(np.array([-1])), keepdims=1)


def _index(kind: str, s: Sketch, x: str) -> str:
    return s.op("Cast", s.op(kind, x, axis=-1), to=TensorProto.FLOAT)


REDUCTIONS: dict[str, Operator] = {
    **{
        kind: partial(_reduce, kind)
        for kind in (
            *("ReduceMax", "ReduceMin", "ReduceSum", "ReduceMean", "ReduceProd", "ReduceL1"),
            *("ReduceL2", "ReduceLogSum", "ReduceLogSumExp", "ReduceSumSquare"),
        )
    },
    **{kind: partial(_op, kind, axis=-1) for kind in ("Softmax", "LogSoftmax", "Hardmax")},
    **{kind: partial(_index, kind) for kind in ("ArgMax", "ArgMin")},
    "CumSum": lambda s, x: s.op("CumSum", x, s.const(np.array(-1))),
    "LpNormalization 1": partial(_op, "LpNormalization", p=1, axis=-1),
    "LpNormalization 2": partial(_op, "LpNormalization", p=2, axis=-1),
    "LayerNormalization": lambda s, x: s.op("LayerNormalization", x, s.const(np.ones(3))),
}
#: Of these a zero's sign shows, or a rounding of their operand becomes large.
SENSITIVE = {
    *("Acos", "Acosh", "Asin", "Atanh", "Cos", "Sin", "Tan", "Reciprocal", "1 Div", "Pow -1"),
    *("Pow -0.5", "Div", "Mod, fmod", "Pow"),
}
#: Whose zeros have another sign than in ONNX Runtime, or whose roundings are others.
UNSIGNED_ZEROS = {
    *("0 Div", "0 Max", "0 Min", "Add 0", "Atanh", "Erf", "Max 0", "Mean", "Min 0", "Mul 0"),
    *("LayerNormalization", "Pow 0.25", "Pow 0.75"),
}
#: Pairs in which neither of those that are asked says what is right.
OTHERWISE = {
    # The two factors are one, so that nothing is too large between them.
    ("Mul 2", "Mul 0"),
    # ONNX Runtime takes the largest number for a bound that is not there, or for a result.
    *(("Clip above", "ReduceLogSumExp"), ("ReduceLogSumExp", "Clip above")),
    *(("Clip below", "ReduceLogSumExp"), ("ReduceLogSumExp", "Clip below")),
    *(("Softsign", "LpNormalization 1"), ("LogSoftmax", "Softsign")),
    # Equal but for their roundings, of which a norm makes numbers.
    *((first, "LayerNormalization") for first in ("Cosh", "Erf", "Mish")),
}
