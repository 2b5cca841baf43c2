"""Rewrite operators that TVM's importer or kernels get wrong."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import onnx_ir as ir

from tvm_ios.graph.elements import GraphError
from tvm_ios.onnx.edit import constant
from tvm_ios.onnx.rewrites.plainly.arithmetic import in_doubles
from tvm_ios.onnx.rewrites.steps import Steps, static_shape

#: Marks an operator whose divisor was made to fit.
_GUARDED = "tvm_ios.guarded"


def integer_division(steps: Steps) -> None:
    """Give ``Div`` and ``Mod`` of integers NumPy's results where they are undefined.

    Division by zero gives 0 for both, and the least number divided by -1 is itself.
    """
    dividend, divisor = steps.node.inputs
    if dividend.dtype is None or not dividend.dtype.is_integer():
        return
    if _GUARDED in steps.node.metadata_props:
        return
    kind = np.dtype(dividend.dtype.numpy())
    known = constant(divisor)
    if known is not None and not np.any((known == 0) | ((known == -1) & (kind.kind == "i"))):
        return
    one = steps.number(np.array(1, kind))
    unfit = steps.op("Equal", divisor, steps.number(np.array(0, kind)))
    if kind.kind == "i":
        is_negative = steps.op("Equal", divisor, steps.number(np.array(-1, kind)))
        unfit = steps.op("Or", unfit, is_negative)
    result = steps.op(
        steps.node.op_type, dividend, steps.op("Where", unfit, one, divisor), **steps.attributes
    )
    result.producer().metadata_props[_GUARDED] = "1"
    # Divided by 0 or -1 is multiplied by it; the remainder is that of a division by 1, 0.
    if steps.node.op_type == "Div":
        result = steps.op("Mul", result, steps.op("Where", unfit, divisor, one))
    steps.stand_for(result)


def layer_norm_statistics(steps: Steps) -> None:
    """Compute the mean and inverse deviation, which TVM sets to zero, beside the layer norm."""
    node = steps.node
    source, outputs = node.inputs[0], node.outputs
    if not any(output.uses() or output.is_graph_output() for output in outputs[1:]):
        return
    if source.shape is None or source.dtype is None:
        return
    rank = len(source.shape)
    axes = range(node.attributes.get_int("axis", -1) % rank, rank)
    epsilon = node.attributes.get_float("epsilon", 1e-5)
    # The type that they are computed in, and have.
    stash = ir.DataType(node.attributes.get_int("stash_type", 1))
    normalised = steps.op("LayerNormalization", *node.inputs, like=outputs[0], **steps.attributes)
    data = steps.cast(source, stash)
    mean = steps.reduced("ReduceMean", data, axes, keepdims=1)
    deviation = steps.op("Sub", data, mean)
    square = steps.op("Mul", deviation, deviation)
    variance = steps.reduced("ReduceMean", square, axes, keepdims=1)
    shifted = steps.op("Add", variance, steps.number(stash.numpy().type(epsilon)))
    steps.stand_for(normalised, mean, steps.op("Reciprocal", steps.op("Sqrt", shifted)))


#: A polynomial that is log((1 + s) / (1 - s)) / s of s**2 up to 1/9; the constant term is first.
_LOGARITHM = (2.0, 0.66666322, 0.40024595, 0.27965158, 0.28157778)
_UNSIGNED = frozenset({ir.DataType[f"UINT{bits}"] for bits in (8, 16, 32, 64)})


def _output(steps: Steps) -> None:
    """Wrap a folded output in an ``Identity`` of its constant, as TVM's importer needs."""
    tensor = ir.convenience.get_const_tensor(steps.node.outputs[0])
    if tensor is not None:
        steps.stand_for(steps.op("Identity", steps.number(tensor.numpy())))


def _eye_like(steps: Steps) -> None:
    """Write ``EyeLike`` as a constant. TVM's importer makes zeros of it."""
    source, node = steps.node.inputs[0], steps.node
    if source.shape is None or not source.shape.is_static() or node.outputs[0].dtype is None:
        return
    rows, columns = source.shape
    diagonal = np.eye(rows, columns, node.attributes.get_int("k", 0), node.outputs[0].dtype.numpy())
    steps.stand_for(steps.op("Identity", steps.number(diagonal)))


def _softplus(steps: Steps) -> None:
    """Write ``Softplus`` and ``Mish`` with log1p. TVM's ``log(1 + exp(x))`` is 0 below x = -17."""
    (source,) = steps.node.inputs
    if source.dtype != ir.DataType.FLOAT:
        return
    power = steps.op("Exp", steps.op("Neg", steps.op("Abs", source)))
    # 1 + power is (1 + s) / (1 - s).
    s = steps.op("Div", power, steps.op("Add", power, steps.number(2.0)))
    square = steps.op("Mul", s, s)
    value = steps.number(_LOGARITHM[-1])
    for coefficient in reversed(_LOGARITHM[:-1]):
        value = steps.op("Add", steps.op("Mul", value, square), steps.number(coefficient))
    positive = steps.op("Max", source, steps.number(0.0))
    result = steps.op("Add", positive, steps.op("Mul", s, value))
    if steps.node.op_type == "Mish":
        result = steps.op("Mul", source, steps.op("Tanh", result))
    steps.stand_for(result)


def _one_hot(steps: Steps) -> None:
    """Write ``OneHot`` as comparisons. TVM's importer makes doubles of it."""
    source, depth, values = steps.node.inputs
    extent, pair = constant(depth), constant(values)
    if extent is None or pair is None or source.shape is None:
        return
    rank = len(source.shape) + 1
    axis = steps.node.attributes.get_int("axis", -1) % rank
    places = np.arange(int(extent.item())).reshape([-1 if i == axis else 1 for i in range(rank)])
    indices = steps.op("Cast", source, to=int(ir.DataType.INT64))
    indices = steps.unsqueezed(indices, axis)
    counted = [steps.op("Equal", indices, steps.number(p)) for p in (places, places - places.size)]
    off, on = (steps.number(pair[i]) for i in range(2))
    steps.stand_for(steps.op("Where", steps.op("Or", *counted), on, off))


def _is_inf(steps: Steps) -> None:
    """Write an ``IsInf`` of one sign. TVM's importer always takes both."""
    (source,), attributes = steps.node.inputs, steps.node.attributes
    signs = [attributes.get_int(f"detect_{sign}", 1) for sign in ("positive", "negative")]
    if all(signs) or source.dtype is None:
        return
    zero = steps.number(np.zeros((), source.dtype.numpy()))
    # Without either sign nothing is both below zero and NaN.
    side = steps.op("Greater" if signs[0] else "Less", source, zero)
    found = steps.op("And", steps.op("IsInf", source), side)
    steps.stand_for(found if any(signs) else steps.op("Xor", found, found))


def _space_to_depth(steps: Steps) -> None:
    """Write ``SpaceToDepth`` of mode CRD with transposes. TVM's importer only knows DCR."""
    (source,), node = steps.node.inputs, steps.node
    if node.attributes.get_string("mode", "DCR") != "CRD":
        return
    if source.shape is None or not source.shape.is_static():
        raise _refusal(node, "its input's shape is not known")
    n, c, h, w = source.shape
    b = node.attributes["blocksize"].value
    blocks = steps.op("Reshape", source, steps.number([n, c, h // b, b, w // b, b]))
    turned = steps.op("Transpose", blocks, perm=[0, 1, 3, 5, 2, 4])
    steps.stand_for(steps.op("Reshape", turned, steps.number([n, c * b * b, h // b, w // b])))


def _dropout(steps: Steps) -> None:
    """Remove a ``Dropout`` of ratio 0 in training mode, and refuse others in training mode."""
    source, ratio, training = (*steps.node.inputs, None, None)[:3]
    if training is None or _is_all(training, False):
        return
    if not _is_all(ratio, 0.0):
        raise _refusal(steps.node, "in training it is random")
    results = [steps.op("Identity", source)]
    if len(steps.node.outputs) > 1:
        unknown = steps.op("IsNaN", source)
        results.append(steps.op("Or", unknown, steps.op("Not", unknown)))
    steps.stand_for(*results)


def _bit_shift(steps: Steps) -> None:
    """Write shifts by negative numbers or by the type's width and more, undefined in TVM."""
    source, shift = steps.node.inputs
    if source.dtype is None:
        return
    kind = np.dtype(source.dtype.numpy())
    width = 8 * kind.itemsize
    places = constant(shift)
    if places is not None and np.all((places >= 0) & (places < width)):
        return
    direction = steps.node.attributes.get_string("direction")
    zero, last = (steps.number(np.array(n, kind)) for n in (0, width - 1))
    # Unsigned, a negative number is a large one.
    outside = steps.op("Greater", shift, last)
    if kind.kind == "i":
        outside = steps.op("Or", outside, steps.op("Less", shift, zero))
    inside = steps.op("Where", outside, last, shift)
    shifted = steps.op("BitShift", source, inside, direction=direction)
    if direction == "RIGHT" and kind.kind == "i":
        # All that is left is the sign.
        steps.stand_for(shifted)
    else:
        steps.stand_for(steps.op("Where", outside, zero, shifted))


def _mod(steps: Steps) -> None:
    """Write a float ``Mod`` with fmod. TVM computes it by a quotient, which may be infinite."""
    a, b = steps.node.inputs
    if a.dtype is None or not a.dtype.is_floating_point():
        integer_division(steps)
        return
    if steps.node.attributes.get_int("fmod", 0):
        return
    zero = steps.number(np.zeros((), a.dtype.numpy()))
    rest = steps.op("Mod", a, b, fmod=1)
    signs = (steps.op("Less", rest, zero), steps.op("Less", b, zero))
    other = steps.op("And", steps.op("Xor", *signs), steps.op("Not", steps.op("Equal", rest, zero)))
    steps.stand_for(steps.op("Where", other, steps.op("Add", rest, b), rest))


def _sign(steps: Steps) -> None:
    """Write ``Sign`` so that it keeps NaN, and without -1 for unsigned types."""
    (source,) = steps.node.inputs
    if source.dtype in _UNSIGNED:
        steps.stand_for(steps.op("Min", source, steps.number(1)))
    elif source.dtype is not None and source.dtype.is_floating_point():
        sign = steps.op("Sign", source)
        steps.stand_for(steps.op("Where", steps.op("IsNaN", source), source, sign))


def _log_sum_exp(steps: Steps) -> None:
    """Write ``ReduceLogSumExp`` so that infinities do not become NaN."""
    source, *axes = steps.node.inputs
    shape, dtype = static_shape(steps.node.outputs[0]), source.dtype
    if dtype is None or not dtype.is_floating_point():
        in_doubles(steps)
        return
    if shape is None:
        return
    if steps.integer("noop_with_empty_axes", 0) and (not axes or axes[0] is None):
        return
    kept = {**steps.attributes, "keepdims": 1}
    bound = float(np.finfo(dtype.numpy()).max)
    most = steps.clipped(steps.op("ReduceMax", source, *axes, **kept), -bound, bound)
    powers = steps.op("Exp", steps.op("Sub", source, most))
    total = steps.op("Add", steps.op("ReduceLogSum", powers, *axes, **kept), most)
    steps.stand_for(steps.op("Reshape", total, steps.number(shape)))


def _of_axes(steps: Steps) -> None:
    """Give reductions a list of axes where the model has a number, as PyTorch writes it."""
    source, *axes = steps.node.inputs
    array = constant(axes[0]) if axes else None
    if array is not None and array.ndim == 0:
        numbers = steps.number(array.reshape(1).astype(np.int64))
        result = steps.op(
            steps.node.op_type, source, numbers, like=steps.node.outputs[0], **steps.attributes
        )
        steps.stand_for(result)


def _is_all(value: Any, number: float) -> bool:
    array = constant(value)
    return array is not None and bool(np.all(array == number))


def _refusal(node: Any, reason: str, way_out: str = "without it") -> GraphError:
    name = node.name or node.outputs[0].name
    return GraphError(
        f"operator {name!r} ({node.op_type}) cannot be written in others, because {reason}: export "
        f"the model {way_out}"
    )


MISREAD: Mapping[str, Callable[[Steps], None]] = {
    "BitShift": _bit_shift,
    "Constant": _output,
    "Div": integer_division,
    "Dropout": _dropout,
    "EyeLike": _eye_like,
    "IsInf": _is_inf,
    "LayerNormalization": layer_norm_statistics,
    "Mish": _softplus,
    "Mod": _mod,
    "OneHot": _one_hot,
    "ReduceLogSumExp": _log_sum_exp,
    "Sign": _sign,
    "Softplus": _softplus,
    "SpaceToDepth": _space_to_depth,
    **dict.fromkeys(("Squeeze", "Unsqueeze"), _of_axes),
}
