"""Winograd's minimal filtering: its matrices, by Cook and Toom, in exact fractions.

Along one axis ``F(m, r)`` computes ``m`` outputs of a filter of ``r`` taps from ``m + r - 1``
inputs by as many products: ``A^T [(G g) * (B^T d)]``. In two dimensions every matrix is applied to
rows and to columns, so that ``m * m`` outputs take ``(m + r - 1)^2`` products instead of ``m * m *
r * r`` (Lavin and Gray, "Fast Algorithms for Convolutional Neural Networks", 2016). An axis along
which the filter has one tap is left as it is.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from math import prod
from types import MappingProxyType

import numpy as np

from tvm_ios.files.array_files import Array

Matrix = tuple[tuple[Fraction, ...], ...]

#: The prefix of a form's name, before the rows of a tile.
FORM = "winograd-"

#: Points by the size of a tile, after 0 in pairs of opposite signs, which share half of the
#: arithmetic. How much rounding grows depends on them: of small fractions whose matrices are exact
#: in float32 these had the least errors to float64, on random activations and weights.
_POINTS: Mapping[int, tuple[Fraction, ...]] = MappingProxyType(
    {
        size: tuple(map(Fraction, points.split()))
        for size, points in {
            1: "",
            4: "0 1 -1",
            6: "0 3/4 -3/4 3/2 -3/2",
            8: "0 1 -1 2 -2 1/2 -1/2",
            10: "0 1/2 -1/2 3/4 -3/4 5/4 -5/4 5/2 -5/2",
            12: "0 1 -1 3/8 -3/8 3/4 -3/4 5/4 -5/4 5/2 -5/2",
        }.items()
    }
)

#: The largest tile by the axes that are filtered: rounding grows along each of them.
_LARGEST: Mapping[int, int] = MappingProxyType({1: 12, 2: 8})


@dataclass(frozen=True, slots=True)
class Filtering:
    """The matrices of ``F(outputs, taps)`` along one axis; the point of the last row is infinity.

    ``inverse`` is ``A^T`` (outputs by products), ``weights`` is ``G`` (products by taps), and
    ``data`` is ``B^T`` (products by inputs).
    """

    outputs: int
    taps: int
    inverse: Matrix
    weights: Matrix
    data: Matrix

    @property
    def size(self) -> int:
        """The number of inputs of a tile, and of products, along one axis."""
        return self.outputs + self.taps - 1


def share_of_products(form: str, kernel: Sequence[int]) -> float:
    """Return the ratio of a form's products to those of direct convolution; 1 unless Winograd."""
    if not form.startswith(FORM):
        return 1.0
    axes = filterings(int(form.removeprefix(FORM)), kernel)
    return prod(axis.size / (axis.outputs * axis.taps) for axis in axes)


def can_filter(outputs: int, kernel: Sequence[int]) -> bool:
    """Return whether there are :func:`filterings` whose rounding error stays small."""
    sizes = [outputs + taps - 1 for taps in kernel if taps > 1]
    return bool(sizes) and max(sizes) <= _LARGEST[len(sizes)] and set(sizes) <= set(_POINTS)


def filterings(outputs: int, kernel: Sequence[int]) -> tuple[Filtering, ...]:
    """Return the filtering along each axis, with ``outputs`` outputs where the filter has taps.

    Raise ValueError if there are no points for tiles of this size.
    """
    return tuple(filtering(outputs if taps > 1 else 1, taps) for taps in kernel)


@lru_cache
def filtering(outputs: int, taps: int) -> Filtering:
    """Return the matrices of ``F(outputs, taps)``.

    Raise ValueError if there are no points for tiles of this size.
    """
    size = outputs + taps - 1
    if size not in _POINTS:
        raise ValueError(f"F({outputs}, {taps}) is not among Winograd's filterings here")
    points = _POINTS[size]
    data: list[tuple[Fraction, ...]] = []
    weights: list[tuple[Fraction, ...]] = []
    for i, point in enumerate(points):
        others = [p for j, p in enumerate(points) if j != i]
        scale = Fraction(1)
        for other in others:
            scale *= point - other
        # The polynomial that is zero at all other points; infinity's is zero at all of them.
        data.append((*_product_of_roots(others), Fraction(0)))
        weights.append(tuple(point**k / scale for k in range(taps)))
    data.append(_product_of_roots(points))
    weights.append((*(Fraction(0) for _ in range(taps - 1)), Fraction(1)))
    inverse = tuple(
        (*(point**k for point in points), Fraction(int(k == outputs - 1))) for k in range(outputs)
    )
    return Filtering(outputs, taps, inverse, tuple(weights), tuple(data))


def transformed_weights(weight: Array, outputs: int) -> Array:
    """Transform a filter's taps (the last axes) to a tile's products, in float64, rounded once."""
    axes = filterings(outputs, weight.shape[2:])
    rows, columns = (np.array(axis.weights, np.float64) for axis in axes)
    # One product of matrices, because einsum takes three times as long.
    taps = weight.reshape(-1, rows.shape[1] * columns.shape[1]).astype(np.float64)
    result = (taps @ np.kron(rows, columns).T).astype(weight.dtype)
    return result.reshape(*weight.shape[:2], len(rows), len(columns))


def _product_of_roots(roots: Sequence[Fraction]) -> tuple[Fraction, ...]:
    """Return the coefficients of the product of ``x - root``, the constant one first."""
    result = [Fraction(1)]
    for root in roots:
        shifted = [Fraction(0), *result]
        for k, coefficient in enumerate(result):
            shifted[k] -= root * coefficient
        result = shifted
    return tuple(result)
