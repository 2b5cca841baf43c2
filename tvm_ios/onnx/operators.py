"""Translate ONNX nodes into the canonical operator kinds of :mod:`tvm_ios.graph.operators`."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx_ir as ir

from tvm_ios.graph.elements import AttrValue, GraphError
from tvm_ios.graph.operators import is_bias
from tvm_ios.onnx.canonical import Attrs, Canonical, Handler, integers, static_shape
from tvm_ios.onnx.edit import constant, is_of_onnx
from tvm_ios.onnx.rewrites.recurrence.loops import DOMAIN, LAYERS, OPTIONAL
from tvm_ios.onnx.windows import WINDOWS

#: The default of ``LRN``, as a file would have it.
_LRN_ALPHA = float(np.float32(1e-4))

#: Integer constants up to this size are attributes of operators without a canonical kind.
_SMALL = 64

_SAME_NAME = {
    "Relu": "relu",
    "Sigmoid": "sigmoid",
    "Tanh": "tanh",
    "Sub": "subtract",
    "Mul": "multiply",
    "Div": "divide",
}


def canonical(node: Any, opset: int) -> list[Canonical]:
    """Return the canonical operators of a simplified node, in order.

    Each but the first reads the result of its predecessor as its first input, then its ``inputs``.
    """
    if is_of_onnx(node):
        if node.op_type in _SAME_NAME:
            return [Canonical(_SAME_NAME[node.op_type], node.inputs)]
        handler = _HANDLERS.get(node.op_type)
        translated = None if handler is None else handler(node, opset)
        if translated is not None:
            return [translated] if isinstance(translated, Canonical) else translated
    if node.domain == DOMAIN:
        return [_recurrence(node)]
    return [_generic(node)]


def _recurrence(node: Any) -> Canonical:
    """Translate an operator of all steps of a recurrent layer."""
    kind, get = LAYERS[node.op_type], node.attributes
    gates, weight, *rest = node.inputs
    given = {n: v for n, v in zip(OPTIONAL[kind], rest, strict=False) if v is not None}
    attrs: Attrs = {
        "kind": kind.removeprefix("DynamicQuantize").lower(),
        "activations": tuple(name.lower() for name in get.get_strings("activations")),
        "reverse": get.get_string("direction") == "reverse",
        "late": bool(get.get_int("linear_before_reset", 0)),
        "given": tuple(given),
        "memory": len(node.outputs) > 1,
    }
    return Canonical("recurrence", (gates, weight, *given.values()), attrs)


def _generic(node: Any) -> Canonical:
    attrs: dict[str, AttrValue] = {}
    plain = (ir.AttributeType.INT, ir.AttributeType.FLOAT, ir.AttributeType.STRING)
    many = (ir.AttributeType.INTS, ir.AttributeType.FLOATS, ir.AttributeType.STRINGS)
    for name, attribute in node.attributes.items():
        if attribute.type in plain:
            attrs[name] = attribute.value
        elif attribute.type in many:
            attrs[name] = tuple(attribute.value)
    inputs: list[Any] = []
    for position, value in enumerate(node.inputs):
        array = constant(value)
        if array is not None and array.dtype.kind in "iub" and array.size <= _SMALL:
            attrs[f"input{position}"] = tuple(array.reshape(-1).tolist())
        elif value is not None:
            inputs.append(value)
    return Canonical(node.op_type.lower(), inputs, attrs)


def _gemm(node: Any, _: int) -> list[Canonical] | None:
    data, weight, *bias = node.inputs
    row = constant(bias[0]) if bias and bias[0] is not None else np.zeros(1)
    if len(node.attributes) or constant(weight) is None or row is None or row.ndim != 1:
        return None
    steps = [Canonical("dense", (data, weight))]
    return steps + [Canonical("bias_add", (value,)) for value in bias if value is not None]


def _matmul(node: Any, _: int) -> Canonical:
    weight = constant(node.inputs[1])
    dense = weight is not None and weight.ndim == 2 and constant(node.inputs[0]) is None
    return Canonical("dense" if dense else "matmul", node.inputs)


def _add(node: Any, _: int) -> Canonical:
    """Translate an ``Add``: with a constant per channel (images) or column it is a ``bias_add``."""
    for value, row in (tuple(node.inputs), tuple(reversed(node.inputs))):
        array = constant(row)
        if array is not None and is_bias(static_shape(value), array.shape):
            return Canonical("bias_add", (value, row))
    return Canonical("add", node.inputs)


def _representable(node: Any) -> dict[str, float]:
    dtype = node.outputs[0].dtype.numpy()
    limits = np.finfo(dtype) if dtype.kind == "f" else np.iinfo(dtype)
    return {"min": float(limits.min), "max": float(limits.max)}


def _extreme(node: Any, _: int) -> Canonical | None:
    """Translate a maximum or minimum of a tensor and a constant number into a clip."""
    inputs = tuple(node.inputs)
    for data, bound in (inputs, inputs[::-1]) if len(inputs) == 2 else ():
        number = constant(bound)
        if number is not None and number.size == 1 and constant(data) is None:
            limit = "min" if node.op_type == "Max" else "max"
            return Canonical("clip", (data,), {**_representable(node), limit: float(number.item())})
    return None


def _clip(node: Any, _: int) -> Canonical | None:
    limits = _representable(node)
    for position, name in enumerate(limits, 1):
        limits[name] = node.attributes.get_float(name, limits[name])
        if len(node.inputs) > position and node.inputs[position] is not None:
            array = constant(node.inputs[position])
            if array is None:
                return None
            limits[name] = float(array.item())
    return Canonical("clip", node.inputs[:1], dict(limits))


def _leaky_relu(node: Any, _: int) -> Canonical:
    return Canonical("leaky_relu", node.inputs, {"alpha": node.attributes.get_float("alpha", 0.01)})


def _global_mean(node: Any, _: int) -> Canonical:
    axes = tuple(range(2, len(node.inputs[0].shape)))
    return Canonical("mean", node.inputs, {"axes": axes, "keepdims": True})


def _reduce_mean(node: Any, _: int) -> Canonical | None:
    rank = len(node.inputs[0].shape)
    axes = integers(node, 1, "axes")
    if axes is None and len(node.inputs) > 1 and node.inputs[1] is not None:
        return None
    if not axes:
        if node.attributes.get_int("noop_with_empty_axes", 0):
            return None
        axes = tuple(range(rank))
    normal = tuple(sorted(axis % rank for axis in axes))
    keepdims = bool(node.attributes.get_int("keepdims", 1))
    return Canonical("mean", node.inputs[:1], {"axes": normal, "keepdims": keepdims})


def _reduce_extreme(kind: str) -> Handler:
    """Return a handler of ``ReduceMax`` or ``ReduceMin``, with attributes as in TVM's IR."""

    def read(node: Any, _: int) -> Canonical | None:
        axes = integers(node, 1, "axes")
        if len(node.inputs) > 1 and node.inputs[1] is not None and axes is None:
            return None
        if not axes and node.attributes.get_int("noop_with_empty_axes", 0):
            return None
        along: Attrs = {"axis": str(tuple(axes))} if axes else {}
        keepdims = bool(node.attributes.get_int("keepdims", 1))
        return Canonical(kind, node.inputs[:1], {"keepdims": keepdims, **along})

    return read


def _concat(node: Any, _: int) -> Canonical:
    if None in node.inputs:
        raise GraphError(f"operator {node.name!r} (Concat) reads an input without a name")
    axis = node.attributes.get_int("axis", 1) % len(node.inputs[0].shape)
    return Canonical("concat", node.inputs, {"axis": axis})


def _softmax(node: Any, opset: int) -> Canonical:
    # Before opset 13 only softmax of two dimensions is left by the simplification.
    axis = node.attributes.get_int("axis", -1 if opset >= 13 else 1) % len(node.inputs[0].shape)
    return Canonical("softmax", node.inputs, {"axis": axis})


def _reshape(node: Any, _: int) -> Canonical:
    return Canonical("reshape", node.inputs[:1], {"shape": static_shape(node.outputs[0])})


def _transpose(node: Any, _: int) -> Canonical:
    default = tuple(reversed(range(len(node.inputs[0].shape))))
    return Canonical(
        "transpose", node.inputs, {"perm": tuple(node.attributes.get_ints("perm", default))}
    )


def _pad(node: Any, _: int) -> Canonical | None:
    rank = len(node.inputs[0].shape)
    pads, axes = integers(node, 1, "pads"), integers(node, 3, "")
    value = node.attributes.get_float("value", 0.0)
    if len(node.inputs) > 2 and node.inputs[2] is not None:
        array = constant(node.inputs[2])
        value = None if array is None else float(array.item())
    if pads is None or value is None:
        return None
    full = [0] * (2 * rank)
    axes = tuple(range(rank)) if axes is None else axes
    for position, axis in enumerate(axes):
        full[axis % rank] = pads[position]
        full[rank + axis % rank] = pads[position + len(axes)]
    mode = node.attributes.get_string("mode", "constant")
    if mode != "constant":
        return Canonical(f"pad_{mode}", node.inputs[:1], {"pads": tuple(full)})
    return Canonical("pad", node.inputs[:1], {"pads": tuple(full), "value": value})


def _slice(node: Any, _: int) -> Canonical | None:
    shape = static_shape(node.inputs[0])
    starts, ends = integers(node, 1, "starts"), integers(node, 2, "ends")
    axes, steps = integers(node, 3, "axes"), integers(node, 4, "steps")
    if starts is None or ends is None:
        return None
    axes = tuple(range(len(starts))) if axes is None else axes
    steps = (1,) * len(axes) if steps is None else steps
    rows: list[tuple[int, int, int, int]] = []
    for axis, start, end, step in zip(axes, starts, ends, steps, strict=True):
        # Python's own slices clamp as ONNX does; a backward slice can end at -1, before the first.
        extent = shape[axis % len(shape)]
        begin, stop, _step = slice(start, end, step).indices(extent)
        if (begin, stop, step) != (0, extent, 1):
            rows.append((axis % len(shape), begin, stop, step))
    rows.sort()
    names = ("axes", "starts", "ends", "steps")
    attrs: Attrs = {name: tuple(row[i] for row in rows) for i, name in enumerate(names)}
    return Canonical("slice", node.inputs[:1], attrs)


def _split(node: Any, _: int) -> Canonical:
    axis: int = node.attributes.get_int("axis", 0) % len(node.inputs[0].shape)
    sizes: tuple[int, ...] = tuple(static_shape(output)[axis] for output in node.outputs)
    return Canonical("split", node.inputs[:1], {"axis": axis, "sizes": sizes})


def _lrn(node: Any, _: int) -> Canonical:
    get = node.attributes.get_float
    attrs: Attrs = {
        "size": node.attributes.get_int("size", 1),
        "alpha": get("alpha", _LRN_ALPHA),
        "beta": get("beta", 0.75),
        "bias": get("bias", 1.0),
    }
    return Canonical("lrn", node.inputs, attrs)


def _cast(node: Any, _: int) -> Canonical:
    return Canonical("cast", node.inputs, {"to": node.outputs[0].dtype.numpy().name})


def _gather(node: Any, _: int) -> Canonical:
    axis = node.attributes.get_int("axis", 0) % len(node.inputs[0].shape)
    return Canonical("gather", node.inputs, {"axis": axis})


def _layer_norm(node: Any, _: int) -> Canonical | None:
    rank = len(node.inputs[0].shape)
    axes = tuple(range(node.attributes.get_int("axis", -1) % rank, rank))
    if len(node.outputs) > 1 or len(node.inputs) < 3 or node.inputs[2] is None:
        return None
    epsilon = float(np.float32(node.attributes.get_float("epsilon", 1e-5)))
    return Canonical("layer_norm", node.inputs, {"axes": axes, "epsilon": epsilon})


_HANDLERS: dict[str, Handler] = {
    **WINDOWS,
    "Add": _add,
    "Cast": _cast,
    "Clip": _clip,
    "Concat": _concat,
    "Flatten": _reshape,
    "Gather": _gather,
    "Gemm": _gemm,
    "GlobalAveragePool": _global_mean,
    "LRN": _lrn,
    "LayerNormalization": _layer_norm,
    "LeakyRelu": _leaky_relu,
    "MatMul": _matmul,
    "Max": _extreme,
    "Min": _extreme,
    "Pad": _pad,
    "ReduceMax": _reduce_extreme("max"),
    "ReduceMean": _reduce_mean,
    "ReduceMin": _reduce_extreme("min"),
    "Reshape": _reshape,
    "Slice": _slice,
    "Softmax": _softmax,
    "Split": _split,
    "Squeeze": _reshape,
    "Transpose": _transpose,
    "Unsqueeze": _reshape,
}
