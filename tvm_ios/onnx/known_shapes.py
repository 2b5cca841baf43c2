"""Open extents of inputs that follow from the model's weights, or that are the batch."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from tvm_ios.onnx.edit import warn_once
from tvm_ios.onnx.inputs import declared_extents
from tvm_ios.onnx.weights_want import extents_of_weights
from tvm_ios.shapes.input_shapes import assumed_batch


def known_shapes(
    name: str, model: Any, shapes: Mapping[str, Sequence[int]]
) -> dict[str, Sequence[int]]:
    """Return the given shapes, and shapes of other inputs that follow from the model.

    An open extent that a weight multiplies is the weight's. If then only the batch is open, it is
    taken as 1, and a warning with the model's ``name`` is logged.
    """
    declared = declared_extents(model)
    known: dict[str, Sequence[int]] = dict(shapes)
    for value, wanted in extents_of_weights(model).items():
        extents = declared[value] or []
        is_open = not all(isinstance(extent, int) for extent in extents)
        for axis, extent in wanted.items():
            if not isinstance(extents[axis], int):
                extents[axis] = extent
        numbers = [extent for extent in extents if isinstance(extent, int)]
        if is_open and len(numbers) == len(extents):
            known.setdefault(value, numbers)
    if batch := assumed_batch(declared, shapes):
        known |= batch
        warn_once(f"{name} leaves its batch open, which is taken as 1: --batch gives another")
    return known
