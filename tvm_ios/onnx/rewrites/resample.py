"""Weights of the source pixels for each result pixel along one axis of a ``Resize``.

Coordinates and filters are computed with fractions, so that no rounding decides which of two pixels
is nearer.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from math import ceil, floor

import numpy as np

from tvm_ios.files.array_files import Array

_HALF = Fraction(1, 2)
#: Denominators up to this one are what a scale was meant to be.
_LARGEST_DENOMINATOR = 10_000


@dataclass(frozen=True, slots=True)
class Filter:
    """The weighting of pixels; fields are the attributes of ``Resize`` of the same names."""

    mode: str
    nearest_mode: str
    cubic_coeff_a: Fraction
    antialias: bool
    exclude_outside: bool


@dataclass(frozen=True, slots=True)
class Axis:
    """An axis that is resized.

    ``before`` and ``after`` are its extents in pixels. ``scale`` is their ratio before ``after`` is
    rounded. ``coordinates`` is the coordinate transformation mode. ``begin`` and ``end`` bound the
    part that ``tf_crop_and_resize`` reads, where 1 is the last pixel's centre.
    """

    before: int
    after: int
    scale: Fraction
    coordinates: str
    begin: Fraction = Fraction(0)
    end: Fraction = Fraction(1)

    @property
    def is_whole(self) -> bool:
        """Whether the scale gives the result's extent without rounding."""
        return self.before * self.scale == self.after

    @property
    def is_same(self) -> bool:
        """Whether the axis stays as it is."""
        return self.before == self.after and self.is_whole and (self.begin, self.end) == (0, 1)

    def place(self, pixel: int) -> Fraction:
        """Return the position of a result pixel, in pixels of the source."""
        last = self.before - 1
        match self.coordinates:
            case "align_corners":
                return Fraction(pixel * last, max(self.after - 1, 1))
            case "asymmetric":
                return pixel / self.scale
            case "tf_crop_and_resize" if self.after == 1:
                return (self.begin + self.end) * last / 2
            case "tf_crop_and_resize":
                return self.begin * last + pixel * (self.end - self.begin) * last / (self.after - 1)
            case "pytorch_half_pixel" if self.after == 1:
                return Fraction(0)
            case "half_pixel_symmetric":
                offset = Fraction(self.before, 2) * (1 - self.after / (self.before * self.scale))
                return offset + (pixel + _HALF) / self.scale - _HALF
            case _:
                return (pixel + _HALF) / self.scale - _HALF

    def outside(self) -> Array:
        """Return a mask of the result pixels that get the extrapolation value."""
        if self.coordinates != "tf_crop_and_resize":
            return np.zeros(self.after, bool)
        return np.array([not 0 <= self.place(i) <= self.before - 1 for i in range(self.after)])


def simplest(scale: float) -> Fraction:
    """Return the simplest fraction that equals this number in float32, or the number itself."""
    fraction = Fraction(scale).limit_denominator(_LARGEST_DENOMINATOR)
    return fraction if np.float32(float(fraction)) == np.float32(scale) else Fraction(scale)


def is_misread(axis: Axis, filter: Filter) -> bool:
    """Return whether TVM would choose another nearest pixel somewhere.

    TVM's floating-point positions are unreliable half-way between two pixels, except for whole
    factors, which this package's kernels compute. In the mode ``asymmetric`` it handles the
    roundings that exporters write, and Relay's importer ignores the others.
    """
    is_whole_factor = axis.after % axis.before == 0
    if axis.coordinates == "asymmetric" and axis.before != axis.after:
        known = ("floor", "round_prefer_floor") if is_whole_factor else ("floor",)
        return filter.nearest_mode not in known
    if is_whole_factor:
        return False
    shift = _HALF if filter.nearest_mode.startswith("round") else 0
    return any((axis.place(i) + shift).denominator == 1 for i in range(axis.after))


def taps(axis: Axis, filter: Filter) -> tuple[Array, Array]:
    """Return the source pixels of each result pixel and their weights.

    Both arrays, of int64 and float64, have shape (after, taps), padded by weights of zero.
    """
    sums = [_weights(axis, filter, axis.place(pixel)) for pixel in range(axis.after)]
    most = max(map(len, sums))
    pixels, weights = np.zeros((axis.after, most), np.int64), np.zeros((axis.after, most))
    for row, parts in enumerate(sums):
        pixels[row, : len(parts)] = list(parts)
        pixels[row, len(parts) :] = next(iter(parts))
        weights[row, : len(parts)] = [float(weight) for weight in parts.values()]
    return pixels, weights


def _weights(axis: Axis, filter: Filter, place: Fraction) -> dict[int, Fraction]:
    """Return the nonzero weights by pixel. Positions outside count for the border pixel."""
    last = axis.before - 1
    if filter.mode == "nearest":
        return {min(max(_nearest(place, filter.nearest_mode), 0), last): Fraction(1)}
    reach = 1 if filter.mode == "linear" else 2
    # A filter against aliasing is as much wider as the image becomes smaller.
    narrowing = min(axis.scale, Fraction(1)) if filter.antialias else Fraction(1)
    first, end = floor(place - reach / narrowing) + 1, ceil(place + reach / narrowing)
    if filter.exclude_outside:
        first, end = max(first, 0), min(end, last + 1)
    weights: dict[int, Fraction] = {}
    for pixel in range(first, end):
        inside = min(max(pixel, 0), last)
        weight = _kernel(abs(pixel - place) * narrowing, filter)
        weights[inside] = weights.get(inside, Fraction(0)) + weight
    total = sum(weights.values())
    if not total:
        # So far outside no pixel is near, and a value of its own stands there.
        return {0: Fraction(0)}
    return {pixel: weight / total for pixel, weight in weights.items() if weight}


def _kernel(distance: Fraction, filter: Filter) -> Fraction:
    """Return the weight of a pixel at a distance within the filter's reach."""
    if filter.mode == "linear":
        return 1 - distance
    a = filter.cubic_coeff_a
    if distance <= 1:
        return ((a + 2) * distance - (a + 3)) * distance**2 + 1
    return ((distance - 5) * distance + 8) * distance * a - 4 * a


def _nearest(place: Fraction, rounding: str) -> int:
    match rounding:
        case "floor":
            return floor(place)
        case "ceil":
            return ceil(place)
        case "round_prefer_ceil":
            return floor(place + _HALF)
        case _:
            return ceil(place - _HALF)
