"""Quantised values as small integers held in floats, which represent them exactly.

Kernels compute in float32. A value that was rounded and clipped there is the same whether or not it
is stored in eight bits; a reader of floats needs no conversion and can fuse with the producer.
Integer types come back only where a model's output, or an operator on integers, needs them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import onnx_ir as ir

from tvm_ios.files.array_files import Array
from tvm_ios.onnx.edit import constant
from tvm_ios.onnx.rewrites.steps import Steps

_HELD = "tvm_ios.integers"
_WITH_AXIS = "tvm_ios.with_axis"
#: The smallest and the largest integer of types that are exact in float32.
LIMITS = {
    ir.DataType.UINT8: (0, 255),
    ir.DataType.INT8: (-128, 127),
    ir.DataType.UINT16: (0, 65535),
    ir.DataType.INT16: (-32768, 32767),
}


@dataclass(frozen=True)
class Integers:
    """An integer tensor as float ``values`` plus a zero point."""

    values: Any
    zero_point: Any
    #: Their sum, if there is one.
    stored: Any = None
    #: Whether the floats are rounded, as a conversion rounds the integers.
    is_rounded: bool = False


def hold(steps: Steps, values: Any, zero_point: Any, dtype: Any, stored: Any = None) -> Any:
    """Return ``values`` plus a zero point as an integer tensor, and record the floats.

    The zero point has the type ``dtype``, or is None for zero. ``stored`` is their sum, if there is
    one.
    """
    shifted = values if stored is None else stored
    if zero_point is not None and stored is None:
        shifted = steps.op("Add", values, as_floats(steps, zero_point))
    result = steps.op("Cast", shifted, to=int(dtype))
    result.dtype = dtype
    know(result, values, zero_point, stored)
    return result


def know(
    value: Any, values: Any, zero_point: Any, stored: Any = None, *, is_rounded: bool = False
) -> None:
    """Record the floats that hold an integer tensor."""
    value.meta[_HELD] = Integers(values, zero_point, stored, is_rounded)


def held(value: Any) -> Integers | None:
    """Return the floats that hold an integer tensor, or None."""
    return value.meta.get(_HELD)


def as_floats(steps: Steps, value: Any) -> Any:
    """Return the numbers of a tensor in float32."""
    return centred(steps, value, None)


def centred(steps: Steps, value: Any, zero_point: Any) -> Any:
    """Return the numbers of an integer tensor less its zero point, exactly, in float32.

    The zero point has the same type, or is None for zero; shapes broadcast.
    """
    zero_point = with_axis(zero_point)
    array, zero = constant(value), _numbers(zero_point)
    if array is not None and zero is not None:
        return steps.number(array.astype(np.float32) - zero)
    integers = held(value)
    if integers is None:
        integers = Integers(_converted(steps, value), None)
    before = _numbers(integers.zero_point)
    if integers.zero_point is zero_point or (
        before is not None and zero is not None and np.array_equal(before, zero)
    ):
        return integers.values
    if before is not None and zero is not None:
        return steps.op("Add", integers.values, steps.number(before - zero))
    if integers.stored is not None and zero is not None and not zero.any():
        return integers.stored
    numbers = integers.values
    if before is None or before.any():
        numbers = steps.op("Add", numbers, as_floats(steps, integers.zero_point))
    if zero is None or zero.any():
        numbers = steps.op("Sub", numbers, as_floats(steps, zero_point))
    return numbers


def multiplied(steps: Steps, a: Any, b: Any) -> Any:
    """Return the product of two tensors, computed at once if both are constant."""
    arrays = constant(a), constant(b)
    if arrays[0] is None or arrays[1] is None:
        return steps.op("Mul", a, b)
    return steps.number(np.asarray(arrays[0] * arrays[1]))


def without_axes(steps: Steps, value: Any) -> Any:
    """Return a value of one element as a scalar and record the original, which kernels read."""
    number = steps.op("Reshape", value, steps.number([]))
    number.meta[_WITH_AXIS] = value
    return number


def is_number(value: Any) -> bool:
    """Return whether :func:`without_axes` made a value."""
    return value is not None and _WITH_AXIS in value.meta


def with_axis(value: Any) -> Any:
    """Return the original of a value that :func:`without_axes` made; any other as it is."""
    return value.meta[_WITH_AXIS] if is_number(value) else value


def _numbers(zero_point: Any) -> Array | None:
    """Return a constant zero point (None is zero) in float32, or None if it is computed."""
    array = np.zeros((), np.float32) if zero_point is None else constant(zero_point)
    return None if array is None else array.astype(np.float32)


def _converted(steps: Steps, value: Any) -> Any:
    array = constant(value)
    if array is not None:
        return steps.number(array.astype(np.float32))
    return steps.op("Cast", value, to=int(ir.DataType.FLOAT))


def rounded(steps: Steps, numbers: Any, zero_point: Any, dtype: Any) -> Any:
    """Return numbers rounded half to even, plus a zero point, clipped to an integer type."""
    nearest = steps.op("Round", numbers)
    limits = limits_of(zero_point, dtype)
    if limits is not None:
        # Before the zero point is added, so that what reads this need not take it off again.
        return hold(steps, clipped(steps, nearest, limits), zero_point, dtype)
    origin = as_floats(steps, zero_point)
    inside = clipped(steps, steps.op("Add", nearest, origin), LIMITS[dtype])
    return hold(steps, steps.op("Sub", inside, origin), zero_point, dtype, inside)


def limits_of(zero_point: Any, dtype: Any) -> tuple[float, float] | None:
    """Return the limits of an integer type less the zero point, or None if that is not known."""
    zero = _numbers(zero_point)
    if zero is None or zero.size != 1:
        return None
    least, most = LIMITS[dtype]
    return least - zero.item(), most - zero.item()


def clipped(steps: Steps, numbers: Any, limits: tuple[float, float]) -> Any:
    """Return numbers clipped to two limits."""
    bounds = (steps.number(np.array(bound, np.float32)) for bound in limits)
    return steps.op("Clip", numbers, *bounds)
