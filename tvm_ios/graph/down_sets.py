"""The states of a graph: its down-sets, as sorted arrays of bit sets."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from tvm_ios.errors import SearchError

#: Bit sets: machine words up to 63 units, Python integers beyond.
Masks = npt.NDArray[Any]

#: The most units of a bit set in a machine word.
WORD_UNITS = 63
#: More sets than these take gigabytes.
MOST_STATES = 4_000_000


def down_sets(predecessors: Sequence[int], most: int = MOST_STATES) -> Masks:
    """Enumerate the sets of units that hold, with a unit, all that it depends on.

    ``predecessors`` are bit sets, in topological order. The result is sorted by size and then by
    value: the empty set first, all units last. Raise SearchError if the numbering is not
    topological or there are more than ``most`` sets.
    """
    sets: Masks = np.zeros(1, dtype=word_type(len(predecessors)))
    for unit, before in enumerate(predecessors):
        if before >> unit:
            raise SearchError(f"unit {unit} reads from a unit numbered after it")
        # A set without the units from here on may take this one if it has what it reads from.
        sets = np.concatenate([sets, sets[(sets & before) == before] | (1 << unit)])
        if len(sets) > most:
            raise SearchError(
                f"a block of {len(predecessors)} units has more than {most} states: "
                "cut the model into smaller blocks"
            )
    return sets[np.lexsort((sets, sizes_of(sets)))]


def word_type(units: int) -> type[Any]:
    """Return the element type that holds a bit set of so many units."""
    return np.uint64 if units <= WORD_UNITS else np.object_


def sizes_of(masks: Masks) -> npt.NDArray[np.int64]:
    """Return the number of members of each bit set."""
    if not hasattr(np, "bitwise_count"):  # NumPy 1, which TVM with Relay needs
        return np.fromiter((int(mask).bit_count() for mask in masks), np.int64, masks.size)
    return np.asarray(np.bitwise_count(masks)).astype(np.int64)


def positions(sets: Masks, members: Masks) -> npt.NDArray[np.int64]:
    """Return the indices of ``members`` in an array of distinct bit sets that has them all."""
    order = np.argsort(sets)
    return order[np.searchsorted(sets, members, sorter=order)]
