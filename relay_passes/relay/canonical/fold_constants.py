"""Constant folding in NumPy, for the arithmetic that importers and batch norms leave behind.

TVM's own ``FoldConstant`` compiles and runs a kernel for every fold: 47 s for Inception V3.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import numpy as np
import tvm
from tvm import relay

from relay_passes.relay.expressions import (
    Array,
    arguments,
    constant,
    constant_value,
    operator_name,
    rebuild,
    static_shape,
)
from relay_passes.relay.operators import slice_bounds
from relay_passes.same_attributes import ints

_ELEMENTWISE: dict[str, Callable[..., Any]] = {
    "add": np.add,
    "subtract": np.subtract,
    "multiply": np.multiply,
    "divide": np.divide,
    "maximum": np.maximum,
    "minimum": np.minimum,
    "sqrt": np.sqrt,
    "rsqrt": lambda a: 1 / np.sqrt(a),
    "negative": np.negative,
    "less": np.less,
    "where": np.where,
}

_RESHAPES = ("expand_dims", "reshape", "squeeze", "nn.batch_flatten")


@tvm.transform.module_pass(opt_level=0, name="FoldSmallConstants")
class FoldSmallConstants:
    """A pass that evaluates operators of constants in ``main`` with NumPy."""

    def transform_module(self, mod: tvm.IRModule, ctx: Any) -> tvm.IRModule:
        """Return the module with constants folded; called by :class:`tvm.transform.Pass`."""
        return rebuild(mod, folded)


def folded(old: Any, call: Any) -> relay.Constant | None:
    """Return the constant that a call of constants computes, or None if it is not folded here.

    ``old`` is the same call with inferred types.
    """
    if not isinstance(call, relay.Call):
        return None
    read = [constant_value(argument) for argument in arguments(call)]
    arrays = [array for array in read if array is not None]
    if not arrays or len(arrays) < len(read):
        return None
    name = operator_name(call)
    if name in _ELEMENTWISE:
        result: Array = _ELEMENTWISE[name](*arrays)
    elif name in _RESHAPES:
        result = arrays[0].reshape(static_shape(old))
    elif name == "broadcast_to":
        result = np.broadcast_to(arrays[0], static_shape(old))
    elif name == "cast":
        result = arrays[0]
    elif name == "transpose":
        axes = call.attrs.axes
        result = np.transpose(arrays[0], None if axes is None else ints(axes))
    elif name == "concatenate":
        result = np.concatenate(arrays, int(call.attrs.axis))
    elif name == "take" and call.attrs.mode == "clip" and not call.attrs.batch_dims:
        axis = call.attrs.axis
        result = arrays[0].take(arrays[1], None if axis is None else int(axis), mode="clip")
    elif name == "strided_slice" and call.attrs.slice_mode == "end":
        cut = [slice(None)] * arrays[0].ndim
        for axis, *bounds in zip(*slice_bounds(call.attrs, len(cut)), strict=True):
            cut[axis] = slice(*bounds)
        result = arrays[0][tuple(cut)]
    elif name == "layout_transform":
        layouts = str(call.attrs.src_layout), str(call.attrs.dst_layout)
        transformed = _in_layout(arrays[0], *layouts)
        if transformed is None:
            return None
        result = transformed
    else:
        return None
    return constant(result.astype(old.checked_type.dtype))


def _in_layout(array: Array, source: str, target: str) -> Array | None:
    """Return an array with some of its axes split (``OIHW`` to ``OIHW8i16o``), or None."""
    axes = re.findall(r"(\d*)([A-Za-z])", target)
    factor = {letter.upper(): int(number) for number, letter in axes if number}
    letters = [letter for _, letter in axes]
    if not source.isupper() or len({*letters}) < len(letters):
        return None
    shape: list[int] = []
    order: list[str] = []
    for letter, extent in zip(source, array.shape, strict=True):
        order.append(letter)
        shape.append(extent // factor.get(letter, 1))
        if letter in factor:
            order.append(letter.lower())
            shape.append(factor[letter])
    if {*order} != {*letters}:
        return None
    return array.reshape(shape).transpose([order.index(letter) for letter in letters])
