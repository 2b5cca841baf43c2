"""Rewrite operators that move elements to computed positions as gathers of rows."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from math import prod
from typing import Any

import numpy as np
import onnx_ir as ir

from tvm_ios.onnx.rewrites.steps import Steps, static_shape


def _reverse_sequence(steps: Steps) -> None:
    """Write ``ReverseSequence``, which reverses a given number of first steps per batch."""
    source, lengths = steps.node.inputs
    extents = static_shape(source)
    if extents is None:
        return
    batch = steps.integer("batch_axis", 1) % len(extents)
    time = steps.integer("time_axis", 0) % len(extents)
    ends = steps.unsqueezed(steps.cast(lengths, ir.DataType.INT64), 1)
    places = steps.number(np.arange(extents[time]))
    mirrored = steps.op("Sub", steps.op("Sub", ends, steps.number([1])), places)
    index = steps.op("Where", steps.op("Less", places, ends), mirrored, places)
    rows = _Rows(steps, source, batch, time)
    steps.stand_for(rows.restored(rows.taken(index, extents[time])))


def _tensor_scatter(steps: Steps) -> None:
    """Write ``TensorScatter``: each batch's update is written into the cache from an index on."""
    inputs: list[Any] = [*steps.node.inputs, None]
    cache, update, begins = inputs[:3]
    extents, update_extents = static_shape(cache), static_shape(update)
    if extents is None or update_extents is None:
        return
    axis = steps.integer("axis", -2) % len(extents)
    extent, length = extents[axis], update_extents[axis]
    first = steps.number(np.zeros((extents[0], 1), np.int64))
    if begins is not None:
        first = steps.unsqueezed(steps.cast(begins, ir.DataType.INT64), 1)
    # For each place of the cache the index into the update; others keep the cache.
    source = steps.op("Sub", steps.number(np.arange(extent)), first)
    if steps.node.attributes.get_string("mode", "linear") == "circular":
        source = steps.op("Mod", source, steps.number([extent]))
    zero, end = steps.number([0]), steps.number([length])
    before, after = steps.op("Less", source, zero), steps.op("Less", source, end)
    inside = steps.op("And", steps.op("Not", before), after)
    rows, kept = _Rows(steps, update, 0, axis), _Rows(steps, cache, 0, axis)
    taken = rows.taken(steps.op("Where", inside, source, zero), extent)
    mask = steps.unsqueezed(inside, 2)
    steps.stand_for(kept.restored(steps.op("Where", mask, taken, kept.value)))


class _Rows:
    """A value as (batch, places, rest), from which each batch gathers its own places."""

    def __init__(self, steps: Steps, value: Any, batch: int, axis: int) -> None:
        extents = list(value.shape)
        self.steps = steps
        self._perm = [batch, axis, *(i for i in range(len(extents)) if i not in (batch, axis))]
        self._extents = [extents[i] for i in self._perm]
        self.shape = [*self._extents[:2], prod(self._extents[2:])]
        turned = steps.transposed(value, self._perm)
        self.value = steps.reshaped(turned, self._extents, self.shape)

    def taken(self, index: Any, count: int) -> Any:
        """Return the places at an index of shape (batch, count)."""
        batch, places, rest = self.shape
        flat = self.steps.op("Reshape", self.value, self.steps.number([batch * places, rest]))
        begins = self.steps.number(np.arange(batch).reshape(batch, 1) * places)
        number = self.steps.op(
            "Reshape", self.steps.op("Add", index, begins), self.steps.number([-1])
        )
        rows = self.steps.op("Gather", flat, number, axis=0)
        return self.steps.op("Reshape", rows, self.steps.number([batch, count, rest]))

    def restored(self, value: Any) -> Any:
        """Return a value of the shape of :attr:`value` in the original layout."""
        whole = self.steps.op("Reshape", value, self.steps.number(self._extents))
        return self.steps.transposed(whole, np.argsort(self._perm).tolist())


PLACES: Mapping[str, Callable[[Steps], None]] = {
    "ReverseSequence": _reverse_sequence,
    "TensorScatter": _tensor_scatter,
}
