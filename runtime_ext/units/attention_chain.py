"""Fuse attention's scores, their softmax and the product with values into one kernel."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from math import prod

from runtime_ext.kernels.chain import Attention
from runtime_ext.kernels.expression import Access
from runtime_ext.kernels.spec import Normalisation, Pointwise, Product, Statement
from runtime_ext.units.handing import handed_on, joined_buffers, renumbered
from runtime_ext.units.unit import PlannedKernel, UnitPlan
from tvm_ios.shapes.extent import at_hint, bounds

#: Most rows of queries of a tile: for these, some columns of keys stay in the first-level cache. It
#: is a multiple of the rows of register tiles.
_ROWS = 24
#: The most bytes of a tile's scores, and the fewest rows for which reading keys and values pays.
_BYTES, _LEAST = 112 * 1024, 6
#: The fewest tiles, if there are so many rows: they balance some lanes.
_TILES = 8


def attention(
    plan: UnitPlan, kernels: Sequence[PlannedKernel], at: int, rows: int | None
) -> tuple[PlannedKernel, int] | None:
    """Fuse the attention whose first kernel is ``kernels[at]``; return it and how many it replaces.

    Return None if no attention begins there. A tile has ``rows`` rows of queries, by default chosen
    so that their scores fit into a cache.
    """
    run = list(kernels[at : at + 4])
    scores = run[0].spec if isinstance(run[0].spec, Product) else None
    parts = run[: 2 if scores is None else 3]
    if len(parts) < 2:
        return None
    softmax, values = parts[-2].spec, parts[-1].spec
    if not (isinstance(softmax, Normalisation) and isinstance(values, Product)):
        return None
    if softmax.kind != "softmax":
        return None
    handed: list[int] = []
    if scores is not None:
        buffer = handed_on(plan, kernels, (parts[0], scores), (parts[1], softmax))
        same = (*scores.grid, scores.columns) == (*softmax.grid, softmax.count)
        if buffer is None or not (same and _is_read_as_written(scores, softmax)):
            return None
        handed.append(buffer)
    buffer = handed_on(plan, kernels, (parts[-2], softmax), (parts[-1], values))
    same = (*values.grid, values.depth) == (*softmax.grid, softmax.count)
    if buffer is None or not (same and _is_read_as_written(softmax, values)):
        return None
    handed.append(buffer)
    rows = rows or _rows(softmax)
    if not rows:
        return None
    if len(run) > len(parts):
        copied = _copied(plan, kernels, (parts[-1], values), run[len(parts)])
        if copied is not None:
            parts[-1], values = copied
            parts.append(run[len(parts)])
    members = parts[: 2 if scores is None else 3]
    buffers, shapes, number_of = joined_buffers(members, handed)
    spec = Attention(
        shapes,
        None if scores is None else renumbered(scores, members[0], number_of),
        renumbered(softmax, members[-2], number_of),
        renumbered(values, members[-1], number_of),
        rows,
    )
    return PlannedKernel(spec, buffers), len(parts)


def _rows(softmax: Normalisation) -> int:
    """Return the rows of queries of a tile; 0 if too few of them fit into a cache.

    Of open extents the largest rows have to fit; the number of tiles is that at the hint.
    """
    _, longest = bounds(softmax.count)
    images, heights, rows = at_hint(softmax.grid)
    most = rows if rows is softmax.grid[2] else _ROWS
    fit = _BYTES // (4 * (longest + 15))
    for tile in (_ROWS, _ROWS // 2, _LEAST):
        if tile <= fit and images * heights * -(-rows // tile) >= _TILES:
            return min(tile, most)
    return min(_LEAST, most) if fit >= _LEAST else 0


def _is_read_as_written(first: Product | Normalisation, second: Normalisation | Product) -> bool:
    """Return whether the second kernel reads each element of its grid where the first wrote it."""
    target = first.statements[0].target
    count = first.columns if isinstance(first, Product) else first.count
    extents = (*first.grid, count)
    same = zip(extents, target.strides, second.data.strides, strict=True)
    return target.offset == second.data.offset and all(
        extent == 1 or one == other for extent, one, other in same
    )


def _copied(
    plan: UnitPlan,
    kernels: Sequence[PlannedKernel],
    product: tuple[PlannedKernel, Product],
    copy: PlannedKernel,
) -> tuple[PlannedKernel, Product] | None:
    """Fuse a product with the kernel that copies its result: store at the copy's target."""
    kernel, spec = product
    if not isinstance(copy.spec, Pointwise) or len(copy.spec.statements) != 1:
        return None
    if handed_on(plan, kernels, product, (copy, copy.spec)) is None:
        return None
    (made,), (moved,) = spec.statements, copy.spec.statements
    target = _moved(made, (*spec.grid, spec.columns), moved, copy.spec.grid)
    if target is None:
        return None
    # The result replaces the intermediate buffer, which nothing else reads.
    place = made.target.buffer
    buffers, shapes = list(kernel.buffers), list(spec.buffers)
    buffers[place] = copy.buffers[moved.target.buffer]
    shapes[place] = copy.spec.buffers[moved.target.buffer]
    statement = replace(made, target=replace(target, buffer=place))
    spec = replace(spec, buffers=tuple(shapes), statements=(statement,))
    return PlannedKernel(spec, tuple(buffers)), spec


def _moved(
    made: Statement, extents: Sequence[int], copy: Statement, grid: Sequence[int]
) -> Access | None:
    """Return the copy's target as an access over the product's grid; None if it is no mere copy."""
    if copy.value[0] != "load" or copy.value[1].offset != made.target.offset:
        return None
    read = copy.value[1]
    axes = [
        (extent, stride, to)
        for extent, stride, to in zip(
            (*grid, copy.count), read.strides, copy.target.strides, strict=True
        )
        if extent != 1
    ]
    if [axis[1:] for axis in axes] == [(1, 1)] and axes[0][0] == prod(extents):
        # A copy of all elements in order, as one axis.
        return replace(copy.target, strides=made.target.strides)
    strides: list[int] = []
    for extent, stride in zip(extents, made.target.strides, strict=True):
        if extent == 1:
            strides.append(0)
            continue
        found = [axis for axis in axes if axis[:2] == (extent, stride)]
        if len(found) != 1:
            return None
        axes.remove(found[0])
        strides.append(found[0][2])
    n, h, w, c = strides
    whole = made.begin == copy.begin == 0 and made.count == extents[3]
    if axes or not whole or c not in (0, 1):
        return None
    return Access(copy.target.buffer, copy.target.offset, (n, h, w, c or 1))
