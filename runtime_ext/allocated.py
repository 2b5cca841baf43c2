"""Replace constants without elements by memory that Relax allocates.

TVM saves constants without elements, but does not load them.
"""

# TVM's nodes get their attributes at run time.
# pyright: reportAttributeAccessIssue=false
from __future__ import annotations

from typing import Any

import numpy as np
import tvm
from tvm import relax

_ALLOCATE = "relax.builtin.alloc_tensor"


def allocated_if_empty(constant: Any) -> Any:
    """Return a constant of Relax, or an allocation in its place if it has no elements."""
    shape, dtype = constant.value.shape, str(constant.value.dtype)
    if 0 not in shape:
        return constant
    return relax.op.builtin.alloc_tensor(relax.ShapeExpr(shape), dtype, 0)


def is_allocation(call: Any) -> bool:
    """Return whether an expression is an allocation of :func:`allocated_if_empty`."""
    if not isinstance(call, relax.Call) or not isinstance(call.op, tvm.ir.Op):
        return False
    return call.op.name == _ALLOCATE and 0 in call.ty.shape


def empty_constant(call: relax.Call) -> Any:
    """Return the constant without elements that such an allocation replaced."""
    shape = tuple(int(extent) for extent in call.ty.shape)
    return relax.const(tvm.runtime.tensor(np.zeros(shape, str(call.ty.dtype))))
