"""Rewrite operators of types that TVM's importer or its kernels do not compute with."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np
import onnx_ir as ir

from tvm_ios.onnx.edit import constant
from tvm_ios.onnx.rewrites.steps import Steps

#: Integer powers up to this one are products, exact as long as they fit.
_MOST_FACTORS = 8

#: Reductions that TVM computes of floats only.
_FRACTIONS = ("ReduceL2", "ReduceLogSum", "ReduceMean")

_SORTED_AS = {
    **{
        ir.DataType[f"{sign}INT{bits}"]: ir.DataType.INT32 for sign in ("", "U") for bits in (8, 16)
    },
    ir.DataType.UINT32: ir.DataType.INT64,
    ir.DataType.BFLOAT16: ir.DataType.FLOAT,
}


def _power(steps: Steps) -> None:
    """Write ``Pow``, as TVM only raises floats to powers of the same type.

    A small whole exponent becomes products; other cases are computed in double precision.
    """
    base, exponent = steps.node.inputs
    if base.dtype is None or (base.dtype == exponent.dtype and base.dtype.is_floating_point()):
        return
    stated = constant(exponent)
    # A single exponent that is a small whole number says how often to multiply.
    factors = None if stated is None or stated.size != 1 else float(stated.item())
    same_shape = base.shape is not None and base.shape == steps.node.outputs[0].shape
    if same_shape and factors in range(1, _MOST_FACTORS + 1):
        result = base
        for _ in range(int(factors or 1) - 1):
            result = steps.op("Mul", result, base)
        steps.stand_for(result)
        return
    # As ONNX Runtime has it: integers are raised in double precision.
    wide = [steps.cast(value, ir.DataType.DOUBLE) for value in (base, exponent)]
    steps.stand_for(steps.cast(steps.op("Pow", *wide), base.dtype))


def _extreme_of_truths(steps: Steps) -> None:
    """Compute the extreme of Booleans, which TVM lacks, on integers."""
    source, *axes = steps.node.inputs
    if source.dtype != ir.DataType.BOOL:
        return
    numbers = steps.cast(source, ir.DataType.UINT8)
    extreme = steps.op(steps.node.op_type, numbers, *axes, **steps.attributes)
    steps.stand_for(steps.cast(extreme, ir.DataType.BOOL))


def _exponential_of_doubles(steps: Steps) -> None:
    """Write an ``Elu`` or ``Selu`` of float64 as a formula."""
    (source,), kind = steps.node.inputs, steps.node.op_type
    if source.dtype != ir.DataType.DOUBLE:
        return
    attributes = steps.attributes
    alpha = attributes.get("alpha", 1.0 if kind == "Elu" else 1.67326319217681884765625)
    gamma = attributes.get("gamma", 1.0 if kind == "Elu" else 1.05070102214813232421875)
    less = steps.op("Sub", steps.op("Exp", source), steps.number(1.0))
    less = steps.op("Mul", less, steps.number(alpha))
    chosen = steps.op("Where", steps.op("Less", source, steps.number(0.0)), less, source)
    steps.stand_for(steps.op("Mul", chosen, steps.number(gamma)))


def _thresholded_relu(steps: Steps) -> None:
    """Write ``ThresholdedRelu`` as a selection.

    TVM multiplies by a Boolean, which turns infinities into NaN, and compares in float32.
    """
    (source,) = steps.node.inputs
    if steps.node.outputs[0].dtype is None:
        return
    alpha = steps.number(steps.node.attributes.get_float("alpha", 1.0))
    above = steps.op("Greater", source, alpha)
    steps.stand_for(steps.op("Where", above, source, steps.number(0.0)))


def _bit_cast(steps: Steps) -> None:
    """Write a ``BitCast`` between integers of one width as a cast."""
    (source,), node = steps.node.inputs, steps.node
    target = ir.DataType(node.attributes["to"].value)
    if source.dtype == target:
        steps.stand_for(source)
    elif source.dtype == ir.DataType.BOOL or (
        source.dtype is not None and source.dtype.is_integer() and target.is_integer()
    ):
        steps.stand_for(steps.cast(source, target))


def _compared(steps: Steps) -> None:
    """Rewrite comparisons of Booleans, and of int32 constants that include the least int32."""
    inputs, kind = list(steps.node.inputs), steps.node.op_type
    if kind == "Equal" and inputs[0].dtype == ir.DataType.BOOL:
        steps.stand_for(steps.op("Not", steps.op("Xor", *inputs)))
    elif inputs[0].dtype == ir.DataType.INT32 and any(map(_has_least, inputs)):
        steps.stand_for(steps.op(kind, *(steps.cast(i, ir.DataType.INT64) for i in inputs)))


def _has_least(value: ir.Value) -> bool:
    array = constant(value)
    return array is not None and bool(np.any(array == np.iinfo(np.int32).min))


def _largest(steps: Steps) -> None:
    """Cast the operand of ``TopK`` to a type that TVM sorts."""
    source, *rest = steps.node.inputs
    wide = _SORTED_AS.get(source.dtype)
    if wide is not None:
        results = steps.op("TopK", steps.cast(source, wide), *rest, outputs=2, **steps.attributes)
        steps.stand_for(steps.cast(results[0], source.dtype), results[1])


def in_doubles(steps: Steps) -> None:
    """Compute a reduction of integers in doubles, and truncate the result."""
    source, *axes = steps.node.inputs
    if source.dtype is None or not source.dtype.is_integer():
        return
    wide = steps.cast(source, ir.DataType.DOUBLE)
    result = steps.op(steps.node.op_type, wide, *axes, **steps.attributes)
    steps.stand_for(steps.cast(result, source.dtype))


ARITHMETIC: Mapping[str, Callable[[Steps], None]] = {
    "BitCast": _bit_cast,
    "Elu": _exponential_of_doubles,
    "Equal": _compared,
    "Greater": _compared,
    "LessOrEqual": _compared,
    "Pow": _power,
    "ReduceMax": _extreme_of_truths,
    "ReduceMin": _extreme_of_truths,
    "Selu": _exponential_of_doubles,
    "TopK": _largest,
    "ThresholdedRelu": _thresholded_relu,
    **dict.fromkeys(_FRACTIONS, in_doubles),
}
