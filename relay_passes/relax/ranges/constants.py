"""Constants that depend on the shape, made of tables that a program holds.

Positions and masks at a shape are a part of those of the largest one; detectors count the cells of
images (:mod:`relay_passes.relax.ranges.grid_constants`); a few numbers are extents.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any, Protocol

import numpy as np
from tvm import relax

from relay_passes.relax.ranges.grid_constants import fitted_images
from runtime_ext.kernels.open_shapes import relax_extent
from tvm_ios.files.array_files import Array
from tvm_ios.shapes.extent import (
    OpenExtentError,
    at_values,
    bounds,
    end_values,
    is_open,
    symbols_in,
)
from tvm_ios.shapes.fitting import Fitting, Values

#: The most numbers of a constant that are extents, and the largest table of their values.
_FEW, _MOST = 16, 1 << 16
#: How many halves of what a part leaves of the largest constant lie before it, the usual first.
_HALVES = (0, 2, 1)


class OpenConstant(Protocol):
    """A constant of open extents, or of numbers that are open extents."""

    @property
    def table(self) -> Array:
        """The array that a program holds, from which :meth:`bindings` make the constant."""
        ...

    def bindings(self, variable: Any, table: Any, extents: Sequence[int]) -> list[Any]:
        """Return the bindings that make the constant of a shape, a variable, from its table."""
        ...


@dataclass(frozen=True, eq=False)
class _Part:
    """A part of the constant at the range's end: its begin, its end or its middle."""

    #: The constant at the range's end; of an axis along which all elements are the same, one.
    table: Array
    #: Its extents.
    largest: tuple[int, ...]
    #: For each axis, how many halves of what is left out lie before the part.
    halves: tuple[int, ...]

    def bindings(self, variable: Any, table: Any, extents: Sequence[int]) -> list[Any]:
        """Return the bindings that make the constant of a shape, a variable, from its table."""
        axes = list(range(len(extents)))
        shape: list[int] = []
        begins: list[int] = []
        each = zip(self.table.shape, self.largest, extents, self.halves, strict=True)
        for kept, most, extent, halves in each:
            shape.append(extent if kept > 1 else 1)
            begins.append((most - extent) * halves // 2 if kept > 1 else 0)
        ends = [begin + extent for begin, extent in zip(begins, shape, strict=True)]
        ty = relax.TensorType(list(map(relax_extent, shape)), variable.ty.dtype)
        part = relax.Var(variable.name, ty)
        bounds = (list(map(relax_extent, each)) for each in (begins, ends))
        cut = relax.op.strided_slice(table, axes, *bounds, assume_inbound=True)
        whole = relax.op.broadcast_to(part, list(map(relax_extent, extents)))
        return [relax.VarBinding(part, cut), relax.VarBinding(variable, whole)]


@dataclass(frozen=True)
class _Numbers:
    """A few whole numbers that are extents, which are looked up in a table of all numbers."""

    numbers: tuple[int, ...]
    dtype: str

    @property
    def _ends(self) -> tuple[int, int]:
        least, most = zip(*map(bounds, self.numbers), strict=True)
        return min(least), max(most)

    @property
    def table(self) -> Array:
        """All numbers from the least to the most."""
        least, most = self._ends
        return np.arange(least, most + 1).astype(self.dtype)

    def bindings(self, variable: Any, table: Any, extents: Sequence[int]) -> list[Any]:
        """Return the bindings that make the constant of a shape, a variable, from its table."""
        least, _ = self._ends
        bindings: list[Any] = []

        def bound(value: Any, extent: int) -> Any:
            ty = relax.TensorType([relax_extent(extent)], self.dtype)
            bindings.append(relax.VarBinding(relax.Var(f"{variable.name}_number", ty), value))
            return bindings[-1].var

        ones: list[Any] = []
        for number in self.numbers:
            # TVM's code knows the extents of tensors alone: the begin of the table up to a number.
            count = number - least + 1
            end = [relax_extent(count)]
            cut = relax.op.strided_slice(table, [0], [0], end, assume_inbound=True)
            ones.append(bound(relax.op.max(bound(cut, count), axis=[0], keepdims=True), 1))
        if len(ones) > 1:
            ones = [bound(relax.op.concat(ones, axis=0), len(ones))]
        return [*bindings, relax.VarBinding(variable, relax.op.reshape(ones[0], list(extents)))]


def open_constants(
    unit: str,
    data: tuple[Any, ...],
    points: Sequence[Sequence[Array]],
    values: Sequence[Values],
    open_extents: Sequence[int],
) -> dict[int, OpenConstant]:
    """Return the constants of a unit that depend on the shape, by place.

    ``data`` is the unit's function, ``points`` has its constants at shapes of these values of the
    symbols. Raise OpenExtentError if a constant is none that is known.
    """
    count = len(points[0])
    types: Sequence[Any] = data[0][len(data[0]) - count :]
    found: dict[int, OpenConstant] = {}
    for place, (_, *extents) in enumerate(types):
        arrays = [of_unit[place] for of_unit in points]
        shape = tuple(extents)
        is_one = not any(map(is_open, shape))
        if is_one and all(np.array_equal(arrays[0], a, equal_nan=True) for a in arrays):
            continue
        known = _numbers(arrays, values, open_extents) if is_one else None
        known = known or _part(shape, arrays) or fitted_images(shape, arrays, values, open_extents)
        if known is None:
            _, most = end_values(symbols_in(shape))
            last = max(arrays, key=lambda array: array.size)
            raise OpenExtentError(
                f"unit {unit!r} has a constant that depends on the shape, and "
                + (
                    "is not the begin, the middle or the end of that of a larger one"
                    if at_values(shape, most) == last.shape
                    else "the model has other units at the end of the range"
                )
            )
        found[place] = known
    return found


def _part(extents: tuple[int, ...], arrays: Sequence[Array]) -> _Part | None:
    """Return a constant at the points as a part of that at the range's end, if it is one."""
    _, most = end_values(symbols_in(extents))
    last = max(arrays, key=lambda array: array.size)
    if at_values(extents, most) != last.shape or not any(map(is_open, extents)):
        return None
    axes = [_HALVES if is_open(extent) else (0,) for extent in extents]
    for halves in product(*axes):
        if all(_is_part(array, last, halves) for array in arrays):
            break
    else:
        return None
    table = last
    for axis, extent in enumerate(extents):
        first = table[(slice(None),) * axis + (slice(0, 1),)]
        if is_open(extent) and np.array_equal(np.broadcast_to(first, table.shape), table):
            table = first
    return _Part(np.ascontiguousarray(table), last.shape, halves)


def _is_part(array: Array, last: Array, halves: Sequence[int]) -> bool:
    """Return whether an array is the part of a larger one that lies so along each axis."""
    places: list[slice] = []
    for extent, most, before in zip(array.shape, last.shape, halves, strict=True):
        begin, rest = divmod((most - extent) * before, 2)
        if rest:
            return False
        places.append(slice(begin, begin + extent))
    return np.array_equal(last[tuple(places)], array, equal_nan=True)


def _numbers(
    arrays: Sequence[Array], values: Sequence[Values], open_extents: Sequence[int]
) -> _Numbers | None:
    """Return a constant at the points as numbers that are extents, if it is such a constant."""
    at_points = np.stack([array.reshape(-1) for array in arrays])
    is_few = 0 < at_points.shape[1] <= _FEW and at_points.dtype.kind in "iuf"
    if not is_few or not np.isfinite(at_points).all() or np.any(at_points % 1):
        return None
    fitting = Fitting(open_extents, values)
    numbers = [fitting.fit([int(n) for n in column]) for column in at_points.T]
    known = [number for number in numbers if number is not None]
    found = _Numbers(tuple(known), str(arrays[0].dtype))
    return found if len(known) == len(numbers) and found.table.size <= _MOST else None
