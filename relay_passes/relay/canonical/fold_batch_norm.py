"""A pass that folds batch norms into the convolutions before them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import tvm
from tvm import relay

from relay_passes.relay.expressions import (
    Array,
    constant,
    constant_value,
    operator_name,
    rebuild,
    static_shape,
    uses_of,
)


@tvm.transform.module_pass(opt_level=0, name="FoldBatchNorm")
class FoldBatchNorm:
    """A pass that folds batch norms into convolutions with NumPy.

    It also folds through a bias and through a concatenation of convolutions. SimplifyInference
    turns the other batch norms into a multiplication and an addition.
    """

    def transform_module(self, mod: tvm.IRModule, ctx: Any) -> tvm.IRModule:
        """Return the module with batch norms folded; called by :class:`tvm.transform.Pass`."""
        uses = uses_of(mod["main"])
        before: dict[Any, Any] = {}

        def emit(old: Any, same: Any) -> Any:
            if isinstance(old, relay.TupleGetItem) and old.index == 0:
                norm = old.tuple_value
                if operator_name(norm) == "nn.batch_norm" and (affine := _affine(norm)):
                    return _scaled(norm.args[0], *affine, uses, before)
            before[old] = same
            return None

        return rebuild(mod, emit)


def _affine(call: relay.Call) -> tuple[Array, Array] | None:
    """Return the scale and shift of a batch norm over axis 1 of 4-D data, None if not constant."""
    a = call.attrs
    if int(a.axis) != 1 or len(static_shape(call.args[0])) != 4:
        return None
    statistics = [constant_value(argument) for argument in call.args[1:5]]
    if any(array is None for array in statistics):
        return None
    gamma, beta, mean, variance = statistics
    scale = (gamma if a.scale else 1) / np.sqrt(variance + np.float32(a.epsilon))
    shift = (beta if a.center else 0) - mean * scale
    return scale.astype(mean.dtype), shift.astype(mean.dtype)


def _scaled(
    data: Any, scale: Array, shift: Array, uses: Mapping[Any, int], new: Mapping[Any, Any]
) -> Any:
    """Return ``data * scale + shift``, folded into the convolutions that make ``data``, else None.

    ``data`` is an old expression; ``new`` maps old expressions to their replacements.
    """
    if uses[data] != 1:
        return None
    name = operator_name(data)
    if name == "concatenate" and int(data.attrs.axis) == 1 and uses[data.args[0]] == 1:
        fields = data.args[0].fields
        bounds = np.cumsum([0, *(static_shape(field)[1] for field in fields)])
        parts = [
            _scaled(field, scale[low:high], shift[low:high], uses, new)
            for field, low, high in zip(fields, bounds[:-1], bounds[1:], strict=True)
        ]
        return None if any(part is None for part in parts) else relay.concatenate(parts, axis=1)
    bias = np.zeros_like(shift)
    if name in ("add", "nn.bias_add"):
        addend, inner = constant_value(data.args[1]), data.args[0]
        if addend is None or uses[inner] != 1 or not _along_channels(data, addend):
            return None
        bias, data = addend.reshape(-1), inner
    if operator_name(data) != "nn.conv2d":
        return None
    weight = constant_value(data.args[1])
    if weight is None or data.attrs.data_layout != "NCHW" or data.attrs.kernel_layout != "OIHW":
        return None
    scaled = constant(weight * scale[:, None, None, None])
    convolution = relay.Call(data.op, [new[data].args[0], scaled], data.attrs, data.type_args)
    return relay.nn.bias_add(convolution, constant(bias * scale + shift))


def _along_channels(addition: relay.Call, row: Array) -> bool:
    channels = static_shape(addition)[1]
    if operator_name(addition) == "nn.bias_add":
        return int(addition.attrs.axis) in (1, -3)
    return (1,) * (4 - row.ndim) + row.shape == (1, channels, 1, 1)
