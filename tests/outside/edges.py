"""Numbers at the edges of their types."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
from numpy.random import Generator
from onnx import helper

from tests.outside.case import Case, floats, kind, node, onnx_model
from tvm_ios.files.array_files import Array

_UNARY = (
    *("Abs", "Neg", "Relu", "Sign", "Sqrt", "Exp", "Log", "Tanh", "Sigmoid", "Softplus", "Elu"),
    *("Ceil", "Floor", "Round", "Reciprocal", "Erf", "Softsign", "Identity", "HardSigmoid", "Sin"),
    *("LeakyRelu", "Selu", "Celu", "HardSwish", "Mish", "Gelu", "ThresholdedRelu", "Atan"),
)
_BINARY = ("Add", "Sub", "Mul", "Div", "Max", "Min", "Pow", "PRelu")
_COMPARE = ("Equal", "Greater", "GreaterOrEqual", "Less", "LessOrEqual")
_REDUCE = (
    *("ReduceMax", "ReduceMin", "ReduceSum", "ReduceMean", "ReduceProd", "ReduceL1", "ReduceL2"),
    *("ReduceLogSum", "ReduceLogSumExp", "ReduceSumSquare"),
)
_SPECIAL = np.array([np.nan, np.inf, -np.inf, 3.4e38, -3.4e38, 0.0, -0.0, 1.0, -1.0], np.float32)


def special(rng: Generator, *shape: int) -> Array:
    """Return normal numbers, of which a half are at an edge."""
    array = floats(rng, *shape)
    edge = rng.choice(_SPECIAL, shape)
    return np.where(rng.random(shape) < 0.5, edge, array).astype(np.float32)


@kind("float edges")
def _float_edges(rng: Generator) -> Case:
    """Two or three operators, of which both operands may be one value."""
    nodes: list[Any] = []
    values, types = ["x", "y"], dict[str, Any]()
    for number in range(int(rng.integers(2, 4))):
        first, second = rng.choice(values), rng.choice(values)
        name, group = f"v{number}", rng.integers(4)
        if group == 0:
            nodes.append(node(rng.choice(_UNARY), [first], [name]))
        elif group == 1:
            nodes.append(node(rng.choice(_BINARY), [first, second], [name]))
        elif group == 2:
            nodes.append(node(rng.choice(_COMPARE), [first, second], [f"c{number}"]))
            nodes.append(node("Where", [f"c{number}", first, second], [name]))
        else:
            nodes.append(node(rng.choice(_REDUCE), [first, "axis"], [name], keepdims=1))
        values.append(name)
        types[name] = np.float32
    feeds = {"x": special(rng, 4, 6), "y": special(rng, 4, 6)}
    return Case(onnx_model(nodes, feeds, types, {"axis": np.array([1])}), feeds)


@kind("float edges beside a constant")
def _constants(rng: Generator) -> Case:
    bound = np.float32(rng.choice([0.0, 1.0, -1.5, np.inf, np.nan, 6.0]))
    low, high = sorted(np.float32(rng.choice([-1.0, 0.0, 0.5, 6.0], 2, replace=False)))
    nodes = [
        node("Clip", ["x", "low", "high"], ["a"]),
        node(str(rng.choice(_BINARY[:-1])), ["x", "bound"], ["b"]),
        node(str(rng.choice(_BINARY[:-1])), ["bound", "x"], ["c"]),
        node(str(rng.choice(_COMPARE)), ["x", "bound"], ["d"]),
    ]
    feeds = {"x": special(rng, 3, 8)}
    types = {"a": np.float32, "b": np.float32, "c": np.float32, "d": bool}
    return Case(onnx_model(nodes, feeds, types, {"low": low, "high": high, "bound": bound}), feeds)


@kind("operator and type")
def _operator_and_type(rng: Generator) -> Case:
    """One operator of any type that ONNX allows it."""
    kinds = [
        *(*_UNARY, *_BINARY, *_COMPARE, *_REDUCE, "And", "Or", "Xor", "Not", "TopK", "CumSum"),
        *("ArgMax", "ArgMin", "Mod", "Where", "Clip", "Concat", "IsNaN", "BitwiseAnd", "Tile"),
    ]
    kind_ = str(rng.choice(kinds))
    schema = onnx.defs.get_schema(kind_, 20)
    names = {
        name[7:-1]: dtype
        for name, dtype in _NUMPY.items()
        if name in schema.type_constraints[0].allowed_type_strs
    }
    dtype = np.dtype(names[str(rng.choice(sorted(names)))])
    x, y = (_of_type(rng, dtype, 3, 5) for _ in range(2))
    feeds = {"x": x, "y": y}
    inputs, outputs, weights = ["x", "y"], {"z": dtype}, dict[str, Array]()
    attributes: dict[str, Any] = {}
    if kind_ in (*_UNARY, "Not", "IsNaN"):
        inputs = ["x"]
    elif kind_ in _REDUCE:
        inputs, weights = ["x", "axes"], {"axes": np.array([int(rng.integers(2))])}
    elif kind_ == "TopK":
        inputs, outputs = ["x", "k"], {"z": dtype, "places": np.int64}
        weights = {"k": np.array([2])}
    elif kind_ == "CumSum":
        inputs, weights = ["x", "axis"], {"axis": np.array(1)}
    elif kind_ == "Tile":
        inputs, weights = ["x", "times"], {"times": np.array([2, 1])}
    elif kind_ in ("ArgMax", "ArgMin"):
        inputs, outputs = ["x"], {"z": np.int64}
    elif kind_ == "Where":
        feeds, inputs = {"w": rng.random((3, 5)) < 0.5, **feeds}, ["w", "x", "y"]
    elif kind_ == "Mod":
        attributes = {"fmod": int(dtype.kind == "f")}
        feeds["y"] = np.where(y == 0, np.ones_like(y), y)
    elif kind_ == "Div" and dtype.kind in "iu":
        feeds["y"] = np.where(y == 0, np.ones_like(y), y)
    elif kind_ == "Concat":
        attributes = {"axis": 0}
    if kind_ in (*_COMPARE, "IsNaN"):
        outputs = {"z": bool}
    feeds = {name: feeds[name] for name in feeds if name in inputs}
    made = node(kind_, inputs, list(outputs), **attributes)
    return Case(onnx_model([made], feeds, outputs, weights), feeds)


_NUMPY = {
    f"tensor({name})": dtype
    for name, dtype in {
        **{n: np.dtype(n) for n in ("float16", "int8", "int16", "int32", "int64", "uint8")},
        **{n: np.dtype(n) for n in ("uint16", "uint32", "uint64", "bool")},
        "float": np.dtype("float32"),
        "double": np.dtype("float64"),
    }.items()
}


def _of_type(rng: Generator, dtype: np.dtype[Any], *shape: int) -> Array:
    if dtype.kind == "b":
        return rng.random(shape) < 0.5
    if dtype.kind == "f":
        return rng.standard_normal(shape).astype(dtype)
    return rng.integers(0 if dtype.kind == "u" else -5, 6, shape).astype(dtype)


@kind("division by zero")
def _division(rng: Generator) -> Case:
    """Integers that no division is defined for, which are 0, and end no process."""
    dtype = np.dtype(rng.choice(["int8", "int32", "int64", "uint8"]))
    x = rng.integers(0, 9, (2, 6)).astype(dtype)
    y = rng.integers(0, 2, (2, 6)).astype(dtype)
    if dtype.kind == "i":
        x[0, 0], y[0, 0] = np.iinfo(dtype).min, -1
    operator = str(rng.choice(["Div", "Mod"]))
    feeds = {"x": x, "y": y}
    model = onnx_model([node(operator, ["x", "y"], ["z"])], feeds, {"z": dtype})
    wide, by = x.astype(object), np.where(y == 0, 1, y).astype(object)
    quotient = np.vectorize(lambda a, b: abs(a) // abs(b) * (1 if a * b >= 0 else -1))(wide, by)
    right = np.where(y == 0, 0, quotient if operator == "Div" else wide % by)
    # The least number by -1 is itself, as in NumPy.
    return Case(model, feeds, [np.asarray(right).astype("int64").astype(dtype)])


@kind("integers past float32")
def _wide(rng: Generator) -> Case:
    dtype = np.dtype(rng.choice(["int32", "int64"]))
    most = 2**30 if dtype.itemsize == 4 else 2**60
    feeds = {n: rng.integers(-most, most, (4, 4)).astype(dtype) for n in ("x", "y")}
    kinds = ("Max", "Min", "Add", "Sub", "Greater", "Equal")
    nodes = [node(k, ["x", "y"], [k.lower()]) for k in kinds]
    nodes.append(node("Cast", ["x"], ["wide"], to=helper.np_dtype_to_tensor_dtype(np.dtype("f8"))))
    nodes.append(node("ReduceMax", ["y"], ["most"], keepdims=0))
    types = {k.lower(): bool if k in ("Greater", "Equal") else dtype for k in kinds}
    return Case(onnx_model(nodes, feeds, {**types, "wide": np.float64, "most": dtype}), feeds)
