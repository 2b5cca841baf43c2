"""The number format bfloat16, the upper half of float32, and the form of units that uses it."""

from __future__ import annotations

from collections.abc import Collection

import numpy as np

from tvm_ios.errors import UserError
from tvm_ios.files.array_files import Array

#: The name in schedules of the form with weights rounded to bfloat16, and of the precision.
FORM = "bfloat16"


def require_precision(policy: str, kernels: Collection[str], precision: str) -> None:
    """Raise UserError if a given schedule rounds weights to bfloat16 and that was not asked for.

    ``kernels`` are the names of the units' rKernels; ``precision`` is empty for float32.
    """
    rounded = sum(name == FORM for name in kernels)
    if rounded and precision != FORM:
        raise UserError(
            f"the schedule {policy!r} has the weights of {rounded} units in {FORM}, and "
            f"{precision or 'float32'} was asked for: give --precision {FORM}, or another schedule"
        )


def computed_precision(asked: str, kernels: Collection[str]) -> str:
    """Return the precision in which a program computes.

    This is the one that was asked for (empty for float32), but float32 if no unit has the form.
    """
    if asked == FORM and FORM not in kernels:
        return "float32"
    return asked or "float32"


def rounded_units(asked: str, kernels: Collection[str], units: int) -> str:
    """Return a sentence that says how many units have bfloat16 weights; empty if not asked for."""
    if asked != FORM:
        return ""
    rounded = sum(name == FORM for name in kernels)
    if not rounded:
        return f"no unit has its weights in {FORM}: the program computes in float32"
    return f"{rounded} of {units} units have their weights in {FORM}, the others in float32"


def bfloat16_bits(array: Array) -> Array:
    """Return the bits, as uint16, of the nearest bfloat16 of each float32; ties go to even.

    Too large numbers become infinite; NaN stays NaN.
    """
    bits = np.ascontiguousarray(array, np.float32).view(np.uint32)
    upper = bits >> np.uint32(16)
    rounded = (bits + (np.uint32(0x7FFF) + (upper & np.uint32(1)))) >> np.uint32(16)
    # Rounding could make a NaN infinite.
    return np.where(np.isnan(array), upper | np.uint32(0x40), rounded).astype(np.uint16)
