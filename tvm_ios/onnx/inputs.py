"""The inputs of an ONNX model, and what programs call them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any


def free_inputs(model: Any) -> list[Any]:
    """The inputs of a model that are no weights, as old files list them too."""
    weights = {tensor.name for tensor in model.graph.initializer}
    return [value for value in model.graph.input if value.name not in weights]


def model_names(model: Any, names: Sequence[str]) -> dict[str, str]:
    """For each input of a program the name of the model's input that it is.

    A program lacks inputs that nothing reads, and TVM's importers rename those that are no
    identifiers. Where both are the case, some of the names are not the model's.
    """
    free = [value.name for value in free_inputs(model)]
    return dict(zip(names, free if len(free) == len(names) else names, strict=True))
