"""Rule of resizes to the nearest of the pixels or between two of them."""

from __future__ import annotations

from fractions import Fraction
from math import floor, gcd
from typing import Any

from runtime_ext.kernels.relax_function import static_shape
from runtime_ext.kernels.spec import Interpolation, Positions, Resampling
from runtime_ext.units.kernel_draft import IMAGE
from runtime_ext.units.rules.reading import read_input
from runtime_ext.units.storing import in_memory
from runtime_ext.units.unit_draft import UnitDraft
from runtime_ext.units.values import Padded
from tvm_ios.shapes.extent import OpenExtentError, is_open

#: The most results of one input pixel; their code is unrolled.
_LARGEST = 16


def resize(unit: UnitDraft, var: Any, call: Any) -> bool:
    """Plan a call of resize2d to the nearest or between two pixels; return whether it is one."""
    attrs = call.attrs
    value = unit.value(call.args[0])
    if str(attrs.layout) != "NCHW":
        return False
    mode, coordinates = str(attrs.method), str(attrs.coordinate_transformation_mode)
    if mode not in ("nearest_neighbor", "linear"):
        return False
    rounding = str(attrs.rounding_method) if mode == "nearest_neighbor" else None
    height, width = static_shape(var.ty)[2:]
    heights, widths = zip(value.shape[2:], (height, width), strict=True)
    rows = _positions(*heights, coordinates, rounding)
    columns = _positions(*widths, coordinates, rounding)
    if rows is None or columns is None:
        return False
    if isinstance(value, Padded):
        value = in_memory(unit, value)
    data, prologue, _, (n, c, h, w) = read_input(unit, value, True)
    row_taps, column_taps = _taps(rows, *heights), _taps(columns, *widths)
    anchor: Interpolation | Resampling
    if row_taps and column_taps and len(row_taps) * len(column_taps) <= _LARGEST:
        anchor = Interpolation((), n, (h, w), c, data, prologue, row_taps, column_taps, ())
    else:
        size = height, width
        anchor = Resampling((), n, (h, w), size, c, data, prologue, rows, columns, ())
    unit.bind_anchor(var, anchor, IMAGE)
    return True


def _positions(before: int, after: int, coordinates: str, rounding: str | None) -> Positions | None:
    """Return the positions of results along an axis; None if the mode is unknown."""
    if coordinates == "pytorch_half_pixel" and after == 1:
        before = 1  # an only result lies at the first input
    if coordinates != "align_corners" and (factor := _whole_factor(before, after)):
        before, after = 1, factor
    match coordinates:
        case "asymmetric":
            step, offset, divisor = before, 0, after
        case "align_corners":
            step, offset, divisor = before - 1, 0, after - 1
        case "half_pixel" | "pytorch_half_pixel":
            step, offset, divisor = 2 * before, before - after, 2 * after
        case _:
            return None
    match rounding:
        case None | "floor":
            pass
        case "ceil":
            offset += divisor - 1
        case "round_prefer_floor":
            step, offset, divisor = 2 * step, 2 * offset + divisor - 1, 2 * divisor
        case "round_prefer_ceil":
            step, offset, divisor = 2 * step, 2 * offset + divisor, 2 * divisor
        case _:
            return None
    if any(map(is_open, (step, offset, divisor))):
        return Positions(step, offset, divisor, rounding is not None)
    if divisor == 0:
        return None
    common = gcd(step, offset, divisor)
    is_rounded = rounding is not None or divisor == common
    return Positions(step // common, offset // common, divisor // common, is_rounded)


def _whole_factor(before: int, after: int) -> int:
    """Return the number by which an axis is enlarged; zero if it is none, or not known."""
    try:
        factor, rest = divmod(after, before)
    except OpenExtentError:
        return 0
    return 0 if is_open(factor) or rest else factor


def _taps(positions: Positions, before: int, after: int) -> tuple[tuple[int, float], ...]:
    """Return the taps of an interpolation along an axis; none if not all inputs have the same."""
    factor = _whole_factor(before, after)
    if is_open(positions.step) or positions.step * factor != positions.divisor:
        return ()
    places = [
        Fraction(i * positions.step + positions.offset, positions.divisor) for i in range(factor)
    ]
    return tuple(
        (floor(place), 0.0 if positions.is_rounded else float(place - floor(place)))
        for place in places
    )
