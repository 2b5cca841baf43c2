"""Rule of resizes by whole factors, as interpolations between fixed neighbours."""

from __future__ import annotations

from fractions import Fraction
from math import ceil, floor
from typing import Any

from runtime_ext.kernels.relax_function import static_shape
from runtime_ext.kernels.spec import Interpolation
from runtime_ext.units.kernel_draft import IMAGE
from runtime_ext.units.rules.reading import read_input
from runtime_ext.units.storing import in_memory
from runtime_ext.units.unit_draft import UnitDraft
from runtime_ext.units.values import Padded
from tvm_ios.shapes.extent import OpenExtentError, is_open

#: The most results of one input pixel; their code is unrolled.
_LARGEST = 16
_HALF = Fraction(1, 2)


def resize(unit: UnitDraft, var: Any, call: Any) -> bool:
    """Plan a call of resize2d by whole factors, nearest or linear; return whether it is one.

    Raise OpenExtentError if another factor depends on the shape in a mode that rounds positions.
    """
    attrs = call.attrs
    value = unit.value(call.args[0])
    if str(attrs.layout) != "NCHW":
        return False
    mode, coordinates = str(attrs.method), str(attrs.coordinate_transformation_mode)
    rounding = str(attrs.rounding_method) if mode == "nearest_neighbor" else None
    if mode not in ("nearest_neighbor", "linear"):
        return False
    extents = zip(value.shape[2:], static_shape(var.ty)[2:], strict=True)
    taps = [_taps(before, after, coordinates, rounding) for before, after in extents]
    rows, columns = taps
    if rows is None or columns is None or len(rows) * len(columns) > _LARGEST:
        return False
    if isinstance(value, Padded):
        value = in_memory(unit, value)
    data, prologue, _, shape = read_input(unit, value, True)
    n, c, h, w = shape
    anchor = Interpolation((), n, (h, w), c, data, prologue, rows, columns, ())
    unit.bind_anchor(var, anchor, IMAGE)
    return True


def _taps(
    before: int, after: int, coordinates: str, rounding: str | None
) -> tuple[tuple[int, float], ...] | None:
    """Return the taps along one axis, as of :class:`runtime_ext.kernels.spec.Interpolation`.

    Return None if the factor is not whole, or the mode is unknown. TVM computes positions in
    floating point: where these are rounded, it is asked for known factors that it gets right
    (:mod:`tvm_ios.onnx.rewrites.resample`), and for any factor only to round ``asymmetric`` ones
    down.
    """
    try:
        factor, rest = divmod(after, before)
    except OpenExtentError:
        factor, rest = 0, 1
    if is_open(factor) or rest:
        is_open_factor = is_open(before) or is_open(after)
        if is_open_factor and rounding and (coordinates, rounding) != ("asymmetric", "floor"):
            raise OpenExtentError(
                f"a Resize to the nearest pixel ({coordinates}, {rounding}) makes {after} of "
                f"{before} pixels: only asymmetric ones that round down may have any factor"
            )
        return None
    taps: list[tuple[int, float]] = []
    for result in range(factor):
        if coordinates == "asymmetric":
            position = Fraction(result, factor)
        elif coordinates == "half_pixel" or (coordinates == "pytorch_half_pixel" and after > 1):
            position = (result + _HALF) / factor - _HALF
        else:
            return None
        match rounding:
            case None:
                taps.append((floor(position), float(position - floor(position))))
            case "floor":
                taps.append((floor(position), 0.0))
            case "ceil":
                taps.append((ceil(position), 0.0))
            case "round_prefer_floor":
                taps.append((ceil(position - _HALF), 0.0))
            case "round_prefer_ceil":
                taps.append((floor(position + _HALF), 0.0))
            case _:
                return None
    return tuple(taps)
