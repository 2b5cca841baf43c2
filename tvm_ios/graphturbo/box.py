"""Boxes: sets of elements of a tensor, as one half-open range for each axis."""

from __future__ import annotations

import math
from collections.abc import Sequence

#: ``((begin, end), ...)``, one range an axis, none of them empty.
Box = tuple[tuple[int, int], ...]


def whole(shape: Sequence[int]) -> Box:
    """Return the box of all elements of a shape."""
    return tuple((0, extent) for extent in shape)


def volume(box: Box) -> int:
    """Return the number of elements of a box."""
    return math.prod(end - begin for begin, end in box)


def hull(a: Box | None, b: Box) -> Box:
    """Return the smallest box that contains both boxes."""
    if a is None:
        return b
    return tuple((min(p[0], q[0]), max(p[1], q[1])) for p, q in zip(a, b, strict=True))


def extents(box: Box) -> tuple[int, ...]:
    """Return the number of elements along each axis."""
    return tuple(end - begin for begin, end in box)


def common(a: Box, b: Box) -> Box:
    """Return the elements that two boxes share; they must share at least one."""
    return tuple((max(p[0], q[0]), min(p[1], q[1])) for p, q in zip(a, b, strict=True))


def intersects(a: Box, b: Box) -> bool:
    """Return whether two boxes share an element."""
    return all(p[0] < q[1] and q[0] < p[1] for p, q in zip(a, b, strict=True))


def share(shape: Sequence[int], axis: int, part: int, parts: int) -> Box:
    """Return one of several parts along an axis, all of equal extents but the last one."""
    size = -(-shape[axis] // parts)
    box = list(whole(shape))
    box[axis] = (part * size, min((part + 1) * size, shape[axis]))
    return tuple(box)
