"""Tensors of integers that lie in bytes: which do, and floats of them for kernels that want these.

What quantised models round and clip are integers of 8 bits, perhaps less a zero point. Kept as
unsigned bytes between units they take a quarter of the memory; kernels make floats of them in
registers, and kernels that multiply bytes read them as they are.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from runtime_ext.kernels.expression import Access
from runtime_ext.kernels.spec import Contraction, Pointwise, Statement, accesses
from runtime_ext.units.integers import Bounds
from runtime_ext.units.pixel_rows import merge_pixels
from runtime_ext.units.values import Storage
from tvm_ios.graph.op_graph import OpGraph
from tvm_ios.program.program import Part

#: The largest number that a byte holds.
LARGEST = 255


def shift_of(low: float, high: float) -> int | None:
    """What is added to integers, and to zero, so that they fit bytes; None if they do not."""
    low, high = min(low, 0), max(high, 0)
    return -int(low) if high - low <= LARGEST else None


def byte_shifts(
    graph: OpGraph, integers: Sequence[Bounds | None], parts: Mapping[int, Part]
) -> tuple[int | None, ...]:
    """For each tensor what is added to its integers in bytes; None where it does not lie in these.

    Parameters
    ----------
    graph
        A graph of units. Its inputs and outputs lie as the model has them.
    integers
        For each tensor the integers that it is known to hold.
    parts
        For each tensor that lies in another one, its part of that: both have the same shift.
    """
    shifts = [
        None
        if bounds is None or graph.producer[tensor] is None or tensor in graph.outputs
        else shift_of(*bounds)
        for tensor, bounds in enumerate(integers)
    ]
    different = True
    while different:
        different = False
        for tensor, part in parts.items():
            if shifts[tensor] != shifts[part.of]:
                shifts[tensor] = shifts[part.of] = None
                different = True
    return tuple(shifts)


def widened(
    spec: Contraction, order: Sequence[int], storages: list[Storage]
) -> tuple[Contraction, tuple[int, ...], list[tuple[Any, tuple[int, ...]]]]:
    """A contraction that reads floats, and the kernel that makes these of its data in bytes.

    Each element is multiplied by many weights, and would be made a float for each few of them.

    Parameters
    ----------
    spec, order, storages
        The contraction, the storages that its buffers are, and the unit's, of which there may be
        one more after.

    Returns
    -------
    tuple
        The contraction, its storages, and the kernel before it with its own, if there is one.
    """
    source = storages[order[spec.data.buffer]]
    if source.shift is None:
        return spec, tuple(order), []
    rows, columns = spec.window.input
    channels = spec.channels * spec.groups
    shape = (spec.batch, rows, columns, channels)
    strides = (rows * columns * channels, columns * channels, channels, 1)
    storages.append(Storage("scratch", 0, shape))
    floats = len(storages) - 1
    value = ("load", replace(spec.data, buffer=0))
    statement = Statement(value, Access(1, 0, strides), 0, channels)
    copy = Pointwise((source.physical, shape), shape[:3], (statement,))
    places = list(order)
    if spec.data.buffer in (access.buffer for access in accesses(spec.statements)):
        places.append(floats)
    else:
        places[spec.data.buffer] = floats
    data = Access(places.index(floats), 0, strides)
    before = (merge_pixels(copy), (order[spec.data.buffer], floats))
    return replace(spec, data=data), tuple(places), [before]
