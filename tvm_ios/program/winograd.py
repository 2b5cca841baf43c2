"""Winograd's minimal filtering: its matrices, by Cook and Toom, in exact fractions.

Along one axis ``F(m, r)`` computes ``m`` outputs of a filter of ``r`` taps from ``m + r - 1``
inputs by as many products: ``A^T [(G g) * (B^T d)]``. In two dimensions every matrix is applied to
rows and to columns, so that ``m * m`` outputs take ``(m + r - 1)^2`` products in the place of
``m * m * r * r`` (Lavin and Gray, "Fast Algorithms for Convolutional Neural Networks", 2016).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from types import MappingProxyType

import numpy as np

from tvm_ios.files.array_files import Array

Matrix = tuple[tuple[Fraction, ...], ...]

#: Before the rows of a tile the name of a form.
FORM = "winograd-"

#: Points by the size of a tile, after 0 in pairs of opposite signs, which share half of the
#: arithmetic. How much rounding grows depends on them: of small fractions whose matrices are exact
#: in float32 these had the least errors to float64, on random activations and weights.
_POINTS: Mapping[int, tuple[Fraction, ...]] = MappingProxyType(
    {
        size: tuple(map(Fraction, points.split()))
        for size, points in {
            4: "0 1 -1",
            6: "0 3/4 -3/4 3/2 -3/2",
            8: "0 1 -1 2 -2 1/2 -1/2",
        }.items()
    }
)


@dataclass(frozen=True, slots=True)
class Filtering:
    """The matrices of ``F(outputs, taps)``; the point of the last row is infinity.

    Attributes
    ----------
    outputs, taps
        Outputs of a tile, and taps of the filter, along one axis.
    inverse
        ``A^T``: outputs by products.
    weights
        ``G``: products by taps.
    data
        ``B^T``: products by inputs.
    """

    outputs: int
    taps: int
    inverse: Matrix
    weights: Matrix
    data: Matrix

    @property
    def size(self) -> int:
        """Inputs of a tile, and products, along one axis."""
        return self.outputs + self.taps - 1


def share_of_products(form: str, taps: int) -> float:
    """The products of a form of a convolution to those of the direct one; 1 of another form."""
    if not form.startswith(FORM):
        return 1.0
    outputs = int(form.removeprefix(FORM))
    return ((outputs + taps - 1) / (outputs * taps)) ** 2


@lru_cache
def filtering(outputs: int, taps: int) -> Filtering:
    """The matrices of ``F(outputs, taps)``.

    Raises
    ------
    ValueError
        If there are no points for tiles of this size.
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
    """From ``(O, I, r, r)`` to ``(O, I, n, n)``: computed in float64 and rounded once."""
    taps = weight.shape[2]
    matrix = np.array(filtering(outputs, taps).weights, np.float64)
    result = np.einsum("ik,ockl,jl->ocij", matrix, weight.astype(np.float64), matrix, optimize=True)
    return result.astype(weight.dtype)


def _product_of_roots(roots: Sequence[Fraction]) -> tuple[Fraction, ...]:
    """The coefficients of the product of ``x - root``, the constant one first."""
    result = [Fraction(1)]
    for root in roots:
        shifted = [Fraction(0), *result]
        for k, coefficient in enumerate(result):
            shifted[k] -= root * coefficient
        result = shifted
    return tuple(result)
