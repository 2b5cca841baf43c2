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

from tvm_ios.onnx.edit import constant
from tvm_ios.onnx.rewrites.steps import Steps

Array = np.ndarray[Any, Any]

_HELD = "tvm_ios.integers"
_ZERO = np.float32(0)
#: What can be asked of a type in numpy, and is exact in float32.
_LIMITS = {
    ir.DataType.UINT8: (0, 255),
    ir.DataType.INT8: (-128, 127),
    ir.DataType.UINT16: (0, 65535),
    ir.DataType.INT16: (-32768, 32767),
}


@dataclass(frozen=True)
class Integers:
    """A tensor of integers, which are those of ``values``, of type float, plus ``zero``."""

    values: Any
    zero: Array


def limits(dtype: Any) -> tuple[int, int] | None:
    """The smallest and the largest integer of a type of 8 or 16 bits; None of another one."""
    return _LIMITS.get(dtype)


def hold(steps: Steps, values: Any, zero: Array, dtype: Any) -> Any:
    """An integer tensor of a type, which knows the floats that hold it."""
    shifted = values if not zero.any() else steps.op("Add", values, steps.number(zero))
    result = steps.op("Cast", shifted, to=int(dtype))
    result.dtype = dtype
    know(result, values, zero)
    return result


def know(value: Any, values: Any, zero: Array) -> None:
    """Remember the floats that hold an integer tensor."""
    value.meta[_HELD] = Integers(values, zero)


def held(value: Any) -> Integers | None:
    """The floats that hold an integer tensor, if some do."""
    return value.meta.get(_HELD)


def as_floats(steps: Steps, value: Any) -> Any:
    """The numbers of an integer tensor in float32."""
    return centred(steps, value, None)


def centred(steps: Steps, value: Any, zero_point: Any) -> Any:
    """The numbers of an integer tensor less its zero point, exactly, in float32.

    Parameters
    ----------
    steps
        Where to compute it.
    value, zero_point
        Of the same integer type, or None for zero; their shapes broadcast.
    """
    array, zero = constant(value), _ZERO if zero_point is None else constant(zero_point)
    if array is not None and zero is not None:
        return steps.number(array.astype(np.float32) - zero.astype(np.float32))
    integers = held(value) or Integers(_converted(steps, value), _ZERO)
    if zero is not None:
        shift = integers.zero - zero.astype(np.float32)
        return steps.op("Add", integers.values, steps.number(shift)) if shift.any() else (
            integers.values
        )
    numbers = integers.values
    if integers.zero.any():
        numbers = steps.op("Add", numbers, steps.number(integers.zero))
    return steps.op("Sub", numbers, as_floats(steps, zero_point))


def _converted(steps: Steps, value: Any) -> Any:
    array = constant(value)
    if array is not None:
        return steps.number(array.astype(np.float32))
    return steps.op("Cast", value, to=int(ir.DataType.FLOAT))


def rounded(steps: Steps, numbers: Any, zero_point: Any, dtype: Any) -> Any:
    """Numbers rounded, half to even, plus a zero point, within the limits of an integer type."""
    nearest = steps.op("Round", numbers)
    least, most = _LIMITS[dtype]
    zero = _ZERO if zero_point is None else constant(zero_point)
    if zero is not None and zero.size == 1:
        # Before the zero point is added, so that what reads this need not take it off again.
        origin = zero.astype(np.float32).reshape(())
        within = _clipped(steps, nearest, least - origin, most - origin)
        return hold(steps, within, origin, dtype)
    shifted = steps.op("Add", nearest, as_floats(steps, zero_point))
    return hold(steps, _clipped(steps, shifted, least, most), _ZERO, dtype)


def _clipped(steps: Steps, numbers: Any, least: float, most: float) -> Any:
    bounds = (steps.number(np.float32(bound)) for bound in (least, most))
    return steps.op("Clip", numbers, *bounds)
