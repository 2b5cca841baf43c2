"""The inputs of an ONNX model."""

from __future__ import annotations

from typing import Any


def free_inputs(model: Any) -> list[Any]:
    """Return the inputs of a model that are not weights (old files list weights as inputs too)."""
    weights = {tensor.name for tensor in model.graph.initializer}
    return [value for value in model.graph.input if value.name not in weights]
