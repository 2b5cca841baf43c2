"""Boxes: which elements of a tensor, a half-open range an axis."""

from __future__ import annotations

import math
from collections.abc import Sequence

#: ``((begin, end), ...)``, one range an axis, none of them empty.
Box = tuple[tuple[int, int], ...]


def whole(shape: Sequence[int]) -> Box:
    """All elements."""
    return tuple((0, extent) for extent in shape)


def volume(box: Box) -> int:
    """The number of elements."""
    return math.prod(end - begin for begin, end in box)


def hull(a: Box | None, b: Box) -> Box:
    """The smallest box that holds both."""
    if a is None:
        return b
    return tuple((min(p[0], q[0]), max(p[1], q[1])) for p, q in zip(a, b, strict=True))


def extents(box: Box) -> tuple[int, ...]:
    """The number of elements along each axis."""
    return tuple(end - begin for begin, end in box)


def common(a: Box, b: Box) -> Box:
    """The elements that two boxes share; they must share one."""
    return tuple((max(p[0], q[0]), min(p[1], q[1])) for p, q in zip(a, b, strict=True))


def intersects(a: Box, b: Box) -> bool:
    """Whether two boxes share an element."""
    return all(p[0] < q[1] and q[0] < p[1] for p, q in zip(a, b, strict=True))


def share(shape: Sequence[int], axis: int, part: int, parts: int) -> Box:
    """One of so many parts along an axis, of equal extents but for the last one."""
    size = -(-shape[axis] // parts)
    box = list(whole(shape))
    box[axis] = (part * size, min((part + 1) * size, shape[axis]))
    return tuple(box)
