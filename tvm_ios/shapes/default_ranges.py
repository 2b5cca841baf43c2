"""The ranges of a model's open dimensions that nobody gave, by their names and places."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from tvm_ios.shapes.input_shapes import Extent
from tvm_ios.shapes.ranges import Range

#: Parts of the names of dimensions along a text or a signal.
_LENGTH = re.compile(r"seq|len|time|frame|step|token|word|text", re.IGNORECASE)
_BATCH = re.compile(r"batch|^(n|b|bs)$", re.IGNORECASE)
_BATCHES, _MOST = Range(1, 32), 512


def default_ranges(
    declared: Mapping[str, Sequence[Extent] | None], rows: int | None = None
) -> dict[str, tuple[int | Range, ...]] | None:
    """Return ranges for inputs of batches and sequences, or None for others.

    ``declared`` has the dimensions of each input, ``rows`` the positions that the model knows. A
    batch is from 1 to 32, a length from 1 to 512 or to ``rows``. None is returned, too, if nothing
    but a batch is open.
    """
    lengths = Range(1, _MOST if rows is None else min(rows, _MOST))
    ranges: dict[str, tuple[int | Range, ...]] = {}
    has_length = False
    for name, extents in declared.items():
        if extents is None or not 1 <= len(extents) <= 3:
            return None
        chosen: list[int | Range] = []
        for axis, extent in enumerate(extents):
            is_open = not isinstance(extent, int) or extent < 1
            text = extent if isinstance(extent, str) else ""
            if not is_open:
                chosen.append(int(extent or 0))
            elif _LENGTH.search(text) or (axis == 1 and not _BATCH.search(text)):
                chosen.append(lengths)
                has_length = True
            elif _BATCH.search(text) or axis == 0:
                chosen.append(_BATCHES)
            else:
                return None
        if any(isinstance(extent, Range) for extent in chosen):
            ranges[name] = tuple(chosen)
    return ranges if has_length else None


def range_text(name: str, extents: Sequence[int | Range]) -> str:
    """Return the shape of an input as a user gives it."""
    return f"{name}:{','.join(map(str, extents))}"
