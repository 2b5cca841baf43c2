"""Layout transforms: reading, building and simplifying them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import tvm
from tvm import relay

from relay_passes.relay.canonical.fold_constants import folded
from relay_passes.relay.expressions import operator_name

#: A layout transform: source and target (``("NCHW", "NCHW16c")``), or None.
Transform = tuple[str, str] | None


@dataclass(frozen=True)
class Border:
    """The form in which a tensor passes between units.

    ``type`` is its Relay type there, ``transform`` the layout change since its operator made it.
    """

    type: relay.TensorType
    transform: Transform = None


def transform_of(expression: Any) -> Transform:
    """Return the (source, target) layouts of a transform that a pass inserted, or None.

    Operators of the model have spans, and inserted ones have none.
    """
    if operator_name(expression) != "layout_transform" or expression.span is not None:
        return None
    return str(expression.attrs.src_layout), str(expression.attrs.dst_layout)


def blocking(shape: Sequence[int], kind: relay.TensorType) -> Transform:
    """Return the transform from a tensor's shape to a type: channels in blocks, or None."""
    if len(shape) != 4 or len(kind.shape) != 5:
        return None
    return "NCHW", f"NCHW{int(kind.shape[-1])}c"


def transformed(expression: Any, how: Transform) -> Any:
    """Return an expression in another layout."""
    if how is None or how[0] == how[1]:
        return expression
    return relay.layout_transform(expression, *how)


def transformed_back(expression: Any, how: Transform) -> Any:
    """Return a transformed expression in its former layout."""
    return transformed(expression, how and (how[1], how[0]))


def type_after(kind: relay.TensorType, how: Transform) -> relay.TensorType:
    """Return the type of a tensor in another layout."""
    if how is None:
        return kind
    variable = relay.Var("x", relay.TensorType(kind.shape, kind.dtype))
    module = tvm.IRModule.from_expr(relay.Function([variable], transformed(variable, how)))
    return relay.transform.InferType()(module)["main"].body.checked_type


def simplified(old: Any, call: Any) -> Any:
    """Fold constants, and fuse two transforms into one; for :func:`expressions.rebuild`."""
    if not isinstance(call, relay.Call):
        return None
    if (constant := folded(old, call)) is not None:
        return constant
    how = transform_of(call)
    before = transform_of(call.args[0]) if how else None
    if how is None or before is None:
        return None
    return transformed(call.args[0].args[0], (before[0], how[1]))
