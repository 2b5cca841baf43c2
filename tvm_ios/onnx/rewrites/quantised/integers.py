"""Small integers held in floats, in which every one of them is exact: quantised values.

Kernels compute in float32. A value that is rounded and clipped there is the same whether it is
stored in eight bits or not; what reads it as a float again needs no conversion, and fuses with what
makes it. The integer types come back only where an output of the model, or an operator that
computes with integers, wants them.
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
    """A tensor of integers: those of ``values``, of type float, plus a zero point."""

    values: Any
    zero_point: Any


def hold(steps: Steps, values: Any, zero_point: Any, dtype: Any) -> Any:
    """An integer tensor of a type, which knows the floats that hold it.

    Parameters
    ----------
    steps, dtype
        Where to compute it, and its type.
    values, zero_point
        What it is the sum of: floats, and a number of its own type, or None for zero.
    """
    shifted = values
    if zero_point is not None:
        shifted = steps.op("Add", values, as_floats(steps, zero_point))
    result = steps.op("Cast", shifted, to=int(dtype))
    result.dtype = dtype
    know(result, values, zero_point)
    return result


def know(value: Any, values: Any, zero_point: Any) -> None:
    """Remember the floats that hold an integer tensor."""
    value.meta[_HELD] = Integers(values, zero_point)


def held(value: Any) -> Integers | None:
    """The floats that hold an integer tensor, if some do."""
    return value.meta.get(_HELD)


def as_floats(steps: Steps, value: Any) -> Any:
    """The numbers of a tensor in float32."""
    return centred(steps, value, None)


def centred(steps: Steps, value: Any, zero_point: Any) -> Any:
    """The numbers of an integer tensor less its zero point, exactly, in float32.

    Parameters
    ----------
    steps
        Where to compute it.
    value, zero_point
        Of the same integer type, the second or None for zero; their shapes broadcast.
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
    numbers = integers.values
    if before is None or before.any():
        numbers = steps.op("Add", numbers, as_floats(steps, integers.zero_point))
    if zero is None or zero.any():
        numbers = steps.op("Sub", numbers, as_floats(steps, zero_point))
    return numbers


def multiplied(steps: Steps, a: Any, b: Any) -> Any:
    """The product of two tensors; of constants at once."""
    arrays = constant(a), constant(b)
    if arrays[0] is None or arrays[1] is None:
        return steps.op("Mul", a, b)
    return steps.number(np.asarray(arrays[0] * arrays[1]))


def without_axes(steps: Steps, value: Any) -> Any:
    """A value of one element as a number without axes, which kernels do not read: it knows both."""
    number = steps.op("Reshape", value, steps.number([]))
    number.meta[_WITH_AXIS] = value
    return number


def is_number(value: Any) -> bool:
    """Whether :func:`without_axes` made a value."""
    return value is not None and _WITH_AXIS in value.meta


def with_axis(value: Any) -> Any:
    """What :func:`without_axes` made a value of; any other one as it is."""
    return value.meta[_WITH_AXIS] if is_number(value) else value


def _numbers(zero_point: Any) -> Array | None:
    """A zero point that is known, in float32."""
    array = np.zeros((), np.float32) if zero_point is None else constant(zero_point)
    return None if array is None else array.astype(np.float32)


def _converted(steps: Steps, value: Any) -> Any:
    array = constant(value)
    if array is not None:
        return steps.number(array.astype(np.float32))
    return steps.op("Cast", value, to=int(ir.DataType.FLOAT))


def rounded(steps: Steps, numbers: Any, zero_point: Any, dtype: Any) -> Any:
    """Numbers rounded, half to even, plus a zero point, within the limits of an integer type."""
    nearest = steps.op("Round", numbers)
    limits = limits_of(zero_point, dtype)
    if limits is not None:
        # Before the zero point is added, so that what reads this need not take it off again.
        return hold(steps, clipped(steps, nearest, limits), zero_point, dtype)
    origin = as_floats(steps, zero_point)
    inside = clipped(steps, steps.op("Add", nearest, origin), LIMITS[dtype])
    return hold(steps, steps.op("Sub", inside, origin), zero_point, dtype)


def limits_of(zero_point: Any, dtype: Any) -> tuple[float, float] | None:
    """The limits of an integer type less a zero point, where this is one known number."""
    zero = _numbers(zero_point)
    if zero is None or zero.size != 1:
        return None
    least, most = LIMITS[dtype]
    return least - zero.item(), most - zero.item()


def clipped(steps: Steps, numbers: Any, limits: tuple[float, float]) -> Any:
    """Numbers within two limits."""
    bounds = (steps.number(np.array(bound, np.float32)) for bound in limits)
    return steps.op("Clip", numbers, *bounds)
