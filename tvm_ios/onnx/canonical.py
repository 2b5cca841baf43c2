"""The canonical form of an ONNX node, and helpers to read a node's attributes and shapes."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from tvm_ios.graph.elements import AttrValue, GraphError
from tvm_ios.onnx.edit import constant

Attrs = Mapping[str, AttrValue]


@dataclass(frozen=True, slots=True)
class Canonical:
    """A canonical operator. ``inputs`` are the ONNX values that it reads."""

    kind: str
    inputs: Sequence[Any]
    attrs: Attrs = field(default_factory=dict[str, AttrValue])


#: Makes canonical operators of a node and an opset; None leaves the node as it is.
Handler = Callable[[Any, int], Canonical | list[Canonical] | None]


def integers(node: Any, position: int, name: str) -> tuple[int, ...] | None:
    """Return integers that newer opsets read as an input and older as an attribute, or None."""
    if len(node.inputs) > position and node.inputs[position] is not None:
        array = constant(node.inputs[position])
        return None if array is None else tuple(array.reshape(-1).tolist())
    values = node.attributes.get_ints(name, None) if name else None
    return None if values is None else tuple(values)


def static_shape(value: Any) -> tuple[int, ...]:
    """Return the extents of a value, or raise GraphError if they are not static."""
    if value.shape is None or any(not isinstance(extent, int) for extent in value.shape):
        raise GraphError(
            f"the shape of {value.name!r} depends on the data; export the model with fixed shapes"
        )
    return tuple(value.shape)
