"""Constant folding in NumPy, for the arithmetic that importers and batch norms leave behind.

TVM's own ``FoldConstant`` compiles and runs a kernel for every fold: 47 s for Inception V3.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import tvm
from tvm import relay

from relay_passes.relay.expressions import (
    Array,
    constant,
    constant_value,
    ints,
    operator_name,
    rebuild,
    static_shape,
)

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
    """Evaluate operators of constants in ``main`` without compiling anything."""

    def transform_module(self, mod: tvm.IRModule, ctx: Any) -> tvm.IRModule:
        """Fold; see :class:`tvm.transform.Pass`."""
        return rebuild(mod, _fold)


def _fold(old: Any, call: Any) -> relay.Constant | None:
    known = [constant_value(argument) for argument in getattr(call, "args", ())]
    arrays = [array for array in known if array is not None]
    if not arrays or len(arrays) < len(known):
        return None
    name = operator_name(call)
    if name in _ELEMENTWISE:
        folded: Array = _ELEMENTWISE[name](*arrays)
    elif name in _RESHAPES:
        folded = arrays[0].reshape(static_shape(old))
    elif name == "broadcast_to":
        folded = np.broadcast_to(arrays[0], static_shape(old))
    elif name == "cast":
        folded = arrays[0]
    elif name == "transpose":
        axes = call.attrs.axes
        folded = np.transpose(arrays[0], None if axes is None else ints(axes))
    else:
        return None
    return constant(folded.astype(old.checked_type.dtype))
