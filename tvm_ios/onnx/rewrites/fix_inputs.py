"""Give a model's inputs the shapes that it is to run with."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import onnx_ir as ir

from tvm_ios.shapes.input_shapes import Extent, resolve_shapes


def fix_inputs(graph: Any, shapes: Mapping[str, Sequence[int]]) -> None:
    """Make the shapes of all inputs static, and forget declared shapes that were not.

    Raise InputShapeError if an input still has a dynamic dimension, or a given shape does not fit.
    """
    declared: dict[str, list[Extent] | None] = {
        value.name: None if value.shape is None else [_extent(extent) for extent in value.shape]
        for value in graph.inputs
    }
    fixed = resolve_shapes(declared, shapes)
    if all(declared[name] == list(shape) for name, shape in fixed.items()):
        return
    for value in graph.inputs:
        value.shape = ir.Shape(fixed[value.name])
    # What was said of the other shapes is inferred anew from these.
    for node in graph:
        for value in node.outputs:
            if value.shape is not None and not _is_known(value.shape):
                value.shape = None


def _is_known(shape: Any) -> bool:
    """Return whether all extents are positive numbers (exporters write 0 for unknown ones)."""
    return all(isinstance(extent, int) and extent > 0 for extent in shape)


def _extent(extent: Any) -> Extent:
    if isinstance(extent, int):
        return extent
    return extent.value if isinstance(extent, ir.SymbolicDim) else None
