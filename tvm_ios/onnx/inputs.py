"""The inputs of an ONNX model."""

from __future__ import annotations

from typing import Any


def free_inputs(model: Any) -> list[Any]:
    """The inputs of a model that are no weights, as old files list them too."""
    weights = {tensor.name for tensor in model.graph.initializer}
    return [value for value in model.graph.input if value.name not in weights]
