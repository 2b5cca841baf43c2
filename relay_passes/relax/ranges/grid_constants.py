"""Constants that are the places of an image's cells, row by row, perhaps of several images.

Detectors add such constants to what they find at each cell. They depend on the shape, and are made
of tables of columns and of rows, whose begin is used.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from tvm import relax

from runtime_ext.kernels.open_shapes import relax_extent
from tvm_ios.files.array_files import Array
from tvm_ios.shapes.extent import OpenExtentError, end_values, evaluate, is_open, symbols_in
from tvm_ios.shapes.fitting import Fitting, Values

#: The most images, and the fewest shapes at which they must be recognised.
_MOST, _FEWEST = 16, 3
_Numbers = tuple[float, ...]


@dataclass(frozen=True, slots=True)
class Grid:
    """Numbers of an image's cells: ``first`` plus multiples of a cell's row and column."""

    #: Extents of the image, perhaps open.
    rows: int
    columns: int
    #: A number each for every row of the constant.
    first: _Numbers
    by_row: _Numbers
    by_column: _Numbers

    def at(self, values: Values) -> Array:
        """Return the numbers at a shape, a line for each row of the constant."""
        rows, columns = (np.arange(evaluate(n, values)) for n in (self.rows, self.columns))
        first, by_row, by_column = (
            np.array(numbers)[:, None, None]
            for numbers in (self.first, self.by_row, self.by_column)
        )
        cells = first + by_row * rows[:, None] + by_column * columns
        return cells.reshape(len(self.first), -1)


@dataclass(frozen=True, slots=True)
class Images:
    """A constant whose last axis counts the cells of images."""

    grids: tuple[Grid, ...]

    @property
    def table(self) -> Array:
        """Return a table with the columns, then the rows of each image, at the range's end."""
        _, most = end_values(symbols_in(self.grids))
        parts: list[Array] = []
        for grid in self.grids:
            columns = Grid(1, grid.columns, grid.first, grid.by_row, grid.by_column)
            nothing = (0.0,) * len(grid.first)
            rows = Grid(grid.rows, 1, nothing, grid.by_row, nothing)
            parts += [columns.at(most), rows.at(most)]
        return np.concatenate(parts, 1).astype(np.float32)

    def bindings(self, variable: Any, table: Any, extents: Sequence[int]) -> list[Any]:
        """Return the bindings that make a constant of a shape, a variable, from its table.

        Raise OpenExtentError if the constant has another size than its images.
        """
        cells: int = sum(grid.rows * grid.columns for grid in self.grids)
        if cells != extents[-1]:
            raise OpenExtentError(
                f"a constant of {extents[-1]} columns has {cells} cells of images"
            )
        bindings: list[Any] = []
        count = len(self.grids[0].first)

        def bound(value: Any, *shape: int) -> Any:
            ty = relax.TensorType(list(map(relax_extent, shape)), "float32")
            bindings.append(relax.VarBinding(relax.Var(f"{variable.name}_grid", ty), value))
            return bindings[-1].var

        def reshaped(value: Any, *shape: int) -> Any:
            extents = list(map(relax_extent, shape))
            return bound(relax.op.reshape(value, extents), *shape)

        _, most = end_values(symbols_in(self.grids))
        begin, images = 0, list[Any]()
        for grid in self.grids:
            parts: list[Any] = []
            for extent in (grid.columns, grid.rows):
                last = relax_extent(begin + extent)
                cut = relax.op.strided_slice(table, [1], [begin], [last])
                parts.append(bound(cut, count, extent))
                begin += evaluate(extent, most)
            columns = reshaped(parts[0], count, 1, grid.columns)
            rows = reshaped(parts[1], count, grid.rows, 1)
            image = bound(relax.op.add(columns, rows), count, grid.rows, grid.columns)
            images.append(reshaped(image, count, grid.rows * grid.columns))
        whole = images[0]
        if len(images) > 1:
            whole = bound(relax.op.concat(images, axis=1), count, cells)
        shape = list(map(relax_extent, extents))
        return [*bindings, relax.VarBinding(variable, relax.op.reshape(whole, shape))]


def fitted_images(
    extents: Sequence[int],
    arrays: Sequence[Array],
    points: Sequence[Values],
    open_extents: Sequence[int],
) -> Images | None:
    """Return the images whose cells a constant's last axis counts; None if it is no such constant.

    ``arrays`` are the constants at the points.
    """
    if arrays[0].dtype != np.float32 or arrays[0].ndim < 2:
        return None
    if not is_open(extents[-1]) or any(map(is_open, extents[:-1])):
        return None
    by_kind: defaultdict[Any, list[tuple[Values, list[Grid]]]] = defaultdict(list)
    for array, point in zip(arrays, points, strict=True):
        grids = _grids(array.reshape(-1, array.shape[-1]).astype(np.float64))
        if grids is not None:
            kind = tuple((g.first, g.by_row, g.by_column) for g in grids)
            by_kind[kind].append((point, grids))
    counts = Counter({kind: len(found) for kind, found in by_kind.items()})
    if not counts or max(counts.values()) < _FEWEST:
        return None
    found = by_kind[counts.most_common(1)[0][0]]
    fitting = Fitting(open_extents, [point for point, _ in found])
    fitted: list[Grid] = []
    for at_points in zip(*(grids for _, grids in found), strict=True):
        sizes: list[int] = []
        for numbers in ([g.rows for g in at_points], [g.columns for g in at_points]):
            extent = fitting.fit(numbers)
            if extent is None:
                return None
            sizes.append(extent)
        one = at_points[0]
        rows, columns = sizes
        fitted.append(Grid(rows, columns, one.first, one.by_row, one.by_column))
    for array, point in zip(arrays, points, strict=True):
        made = np.concatenate([grid.at(point) for grid in fitted], 1).astype(np.float32)
        if not np.array_equal(made, array.reshape(len(made), -1)):
            return None
    return Images(tuple(fitted))


def _grids(numbers: Array) -> list[Grid] | None:
    """Return the images whose cells the columns of an array are, from left to right, or None."""
    grids: list[Grid] = []
    begin = 0
    while begin < numbers.shape[1]:
        if len(grids) == _MOST:
            return None
        grid = _first_grid(numbers[:, begin:])
        grids.append(grid)
        begin += grid.rows * grid.columns
    return grids


def _first_grid(numbers: Array) -> Grid:
    """Return the largest image with which an array begins."""
    first, count = numbers[:, 0], numbers.shape[1]
    step = numbers[:, 1] - first if count > 1 else np.zeros_like(first)
    columns = _agreeing(numbers, first[:, None] + step[:, None] * np.arange(count))
    by_row, rows = np.zeros_like(first), 1
    if columns < count:
        down = numbers[:, columns] - first
        row, column = np.divmod(np.arange(count), columns)
        cells = first[:, None] + down[:, None] * row + step[:, None] * column
        rows = _agreeing(numbers, cells) // columns
        by_row = down if rows > 1 else by_row
    starts, downs, steps = (tuple(map(float, n)) for n in (first, by_row, step))
    return Grid(rows, columns, starts, downs, steps)


def _agreeing(numbers: Array, others: Array) -> int:
    """Return how many columns from the left agree in two arrays."""
    differ = np.flatnonzero((numbers != others).any(0))
    return int(differ[0]) if differ.size else numbers.shape[1]
