"""The elements of an operator graph: tensors and operators."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any

from tvm_ios.errors import UserError

#: Attribute values are plain data, so that graphs can be hashed and written as JSON.
AttrValue = int | float | str | bool | tuple["AttrValue", ...]

_DTYPE_BYTES = {
    **dict.fromkeys(("bool", "int8", "uint8"), 1),
    **dict.fromkeys(("bfloat16", "float16", "int16", "uint16"), 2),
    **dict.fromkeys(("float32", "int32", "uint32"), 4),
    **dict.fromkeys(("float64", "int64", "uint64"), 8),
}


class GraphError(UserError):
    """A graph breaks a rule; the message names the rule and the place."""


@dataclass(frozen=True, slots=True)
class Tensor:
    """A value of the graph."""

    #: Decoration: importers invent names, so no fingerprint depends on it.
    name: str
    #: Static extents, in the model's own layout (images are NCHW).
    shape: tuple[int, ...]
    #: A NumPy type name.
    dtype: str = "float32"
    #: True for a weight: known when the program is built.
    constant: bool = False

    @property
    def nbytes(self) -> int:
        """Size in bytes."""
        return math.prod(self.shape) * _DTYPE_BYTES[self.dtype]


@dataclass(frozen=True, slots=True)
class Operator:
    """A node of the graph: one operator, or one unit of several."""

    #: Decoration, unique in the graph; schedules for people use it.
    name: str
    #: What it computes, e.g. ``"conv2d"``; a unit's kind joins those of its members with ``"+"``.
    kind: str
    #: Tensor numbers. Constants are inputs too.
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]
    #: Attributes in canonical form. A unit of one anchor carries the anchor's.
    attrs: Mapping[str, AttrValue] = field(default_factory=lambda: MappingProxyType({}))
    #: Floating-point operations (a multiply-add is two).
    flops: int = 0
    #: For a unit, the operators that it holds, as numbers in the graph it was formed from.
    members: tuple[int, ...] = ()


def known_dtype(dtype: Any) -> str:
    """Return the type of a tensor as read from a file; raise GraphError if it is unknown."""
    if dtype not in _DTYPE_BYTES:
        raise GraphError(f"{dtype!r} is no type of a tensor: use {', '.join(_DTYPE_BYTES)}")
    return dtype
