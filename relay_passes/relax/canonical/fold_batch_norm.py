"""A pass that folds batch norms into the convolutions before them."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np
import tvm
from tvm import relax

from relay_passes.dialect import DialectError
from relay_passes.relax.expressions import (
    bindings_of,
    constant,
    constant_value,
    first_field,
    operator_name,
    rebuild,
    static_shape,
    substitute,
    uses_of,
)
from tvm_ios.files.array_files import Array


@tvm.transform.module_pass(opt_level=0, name="FoldBatchNorm")
class FoldBatchNorm:
    """A pass that folds batch norms into the convolutions before them.

    Unlike TVM's FoldBatchnormToConv2D it computes the weights at once in NumPy, and folds through a
    bias and through a concatenation of convolutions (NASNet's path adjustment).
    """

    def transform_module(self, mod: tvm.IRModule, ctx: Any) -> tvm.IRModule:
        """Return the module with batch norms folded; called by :class:`tvm.transform.Pass`."""
        defined = {b.var: b.value for b in bindings_of(mod["main"])}
        uses = uses_of(mod["main"])
        folded: dict[Any, Any] = {}

        def emit(
            builder: relax.BlockBuilder, binding: relax.VarBinding, new: dict[Any, Any]
        ) -> Any:
            value = binding.value
            if operator_name(value) == "relax.nn.batch_norm" and (affine := _affine(value, new)):
                scaled = _scale(builder, value.args[0], *affine, defined, uses, new)
                if scaled is not None:
                    folded[binding.var] = scaled
            return first_field(value, folded)

        return rebuild(mod, "main", emit, ["relax.nn.batch_norm"])


def _affine(call: relax.Call, new: dict[Any, Any]) -> tuple[Array, Array] | None:
    """Return the scale and shift of a batch norm over axis 1 of 4-D data.

    Return None if its statistics are not constant; raise DialectError in training mode.
    """
    if call.attrs.training:
        raise DialectError(
            "a batch norm is in training mode: build the module with training=False, or run "
            "relax.transform.DecomposeOpsForInference first"
        )
    if int(call.attrs.axis) != 1 or len(static_shape(call.args[0])) != 4:
        return None
    statistics = [constant_value(substitute(argument, new)) for argument in call.args[1:5]]
    if any(array is None for array in statistics):
        return None
    gamma, beta, mean, variance = statistics
    gamma = gamma if call.attrs.scale else np.ones_like(gamma)
    beta = beta if call.attrs.center else np.zeros_like(beta)
    scale = gamma / np.sqrt(variance + np.float32(call.attrs.epsilon))
    return scale.astype(gamma.dtype), (beta - mean * scale).astype(gamma.dtype)


def _scale(
    builder: relax.BlockBuilder,
    data: Any,
    scale: Array,
    shift: Array,
    defined: dict[Any, Any],
    uses: Counter[Any],
    new: dict[Any, Any],
) -> Any:
    """Emit ``data * scale + shift``, folded into the convolutions that make ``data``.

    Return None if something else makes it, or something else reads them.
    """
    value = defined.get(data)
    name = operator_name(value)
    if value is None or uses[data] != 1:
        return None
    if name == "relax.concat" and int(value.attrs.axis) == 1:
        fields = value.args[0].fields
        bounds = np.cumsum([0, *(static_shape(field)[1] for field in fields)])
        parts: list[Any] = []
        for field, low, high in zip(fields, bounds[:-1], bounds[1:], strict=True):
            part = _scale(builder, field, scale[low:high], shift[low:high], defined, uses, new)
            if part is None:
                return None
            parts.append(part)
        return builder.emit(relax.op.concat(parts, axis=1))
    bias = np.zeros_like(shift)
    if name == "relax.add":
        addend = constant_value(substitute(value.args[1], new))
        inner = value.args[0]
        if addend is None or uses[inner] != 1:
            return None
        if (1,) * (4 - addend.ndim) + addend.shape != (1, shift.size, 1, 1):
            return None
        bias, value = addend.reshape(-1), defined.get(inner)
        name = operator_name(value)
    if name != "relax.nn.conv2d":
        return None
    weight = constant_value(substitute(value.args[1], new))
    layouts = (value.attrs.data_layout, value.attrs.kernel_layout, value.attrs.out_layout)
    if weight is None or layouts != ("NCHW", "OIHW", "NCHW"):
        return None
    scaled = constant(weight * scale[:, None, None, None])
    convolution = builder.emit(
        relax.Call(value.op, [substitute(value.args[0], new), scaled], value.attrs, value.ty_args)
    )
    return builder.emit(
        relax.op.add(convolution, constant((bias * scale + shift).reshape(1, -1, 1, 1)))
    )
