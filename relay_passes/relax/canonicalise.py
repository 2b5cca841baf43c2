"""Bring a Relax module into the form that scheduling reads: inference only, constants folded."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np
import tvm
from tvm import relax

from relay_passes.relax.bindings import (
    DialectError,
    bindings_of,
    operator_name,
    rebuild,
    static_shape,
    substitute,
    uses_of,
)
from relay_passes.relax.fold_constants import FoldSmallConstants, constant, constant_value
from relay_passes.relax.raise_clip import RaiseClip
from relay_passes.relax.raise_gather import RaiseGather
from relay_passes.relax.raise_pad import RaisePad
from relay_passes.relax.wrap_indices import WrapIndices


def canonicalise(module: tvm.IRModule) -> tvm.IRModule:
    """The module with ``main`` ready for :func:`relay_passes.relax.extract.extract`.

    Equal operators are kept apart: published counts of NASNet have its two equal pools. Functions
    that ``main`` calls are put into it, also those that were fused.

    Raises
    ------
    DialectError
        If there is no ``main``, or it has control flow or dynamic shapes.
    """
    if not any(v.name_hint == "main" for v in module.get_global_vars()):
        raise DialectError("the module has no function 'main' to schedule")
    if not isinstance(module["main"], relax.Function):
        raise DialectError("'main' is not a Relax function: only those can be scheduled")
    passes = [
        relax.transform.Normalize(),
        FoldSmallConstants(),
        FoldBatchNorm(),
        relax.transform.DecomposeOpsForInference("main"),
        RemoveDropout(),
        RaisePad(),
        RaiseClip(),
        RaiseGather(),
        WrapIndices(),
        FoldSmallConstants(),
        relax.transform.CanonicalizeBindings(),
        relax.transform.DeadCodeElimination(),
    ]
    return tvm.transform.Sequential(passes)(_with_calls_inlined(module))


def _with_calls_inlined(module: tvm.IRModule) -> tvm.IRModule:
    """``main`` with what it calls in it, but for what another code generator compiles."""
    main = module.get_global_var("main")
    others = {
        variable: function
        for variable, function in module.functions_items()
        if isinstance(function, relax.Function) and variable != main
    }
    inlined = {v: f for v, f in others.items() if not (f.attrs and "Codegen" in f.attrs)}
    if not inlined:
        return module
    try:
        whole = module[main].inline_functions(inlined)
    except tvm.error.InternalError as error:
        raise DialectError("main calls a function that calls itself: unroll it") from error
    return tvm.IRModule({**dict(module.functions_items()), main: whole}, attrs=module.attrs)


@tvm.transform.module_pass(opt_level=0, name="RemoveDropout")
class RemoveDropout:
    """Inference keeps all activations; DecomposeOpsForInference leaves dropout in place."""

    def transform_module(self, mod: tvm.IRModule, ctx: Any) -> tvm.IRModule:
        """Remove; see :class:`tvm.transform.Pass`."""
        kept: dict[Any, Any] = {}

        def emit(
            builder: relax.BlockBuilder, binding: relax.VarBinding, new: dict[Any, Any]
        ) -> Any:
            value = binding.value
            if operator_name(value) == "relax.nn.dropout":
                kept[binding.var] = substitute(value.args[0], new)
            field = _first_field(value, kept)
            return builder.emit(substitute(value, new)) if field is None else field

        return rebuild(mod, "main", emit)


@tvm.transform.module_pass(opt_level=0, name="FoldBatchNorm")
class FoldBatchNorm:
    """Fold batch norms into the convolutions before them.

    Unlike TVM's FoldBatchnormToConv2D it folds at once in NumPy, through a bias, and through a
    concatenation of convolutions (NASNet's path adjustment).
    """

    def transform_module(self, mod: tvm.IRModule, ctx: Any) -> tvm.IRModule:
        """Fold; see :class:`tvm.transform.Pass`."""
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
            field = _first_field(value, folded)
            return builder.emit(substitute(value, new)) if field is None else field

        return rebuild(mod, "main", emit)


def _first_field(value: Any, instead: dict[Any, Any]) -> Any:
    """What stands for the first field of a tuple, if the value takes it from one of these."""
    if isinstance(value, relax.TupleGetItem) and value.index == 0:
        return instead.get(value.tuple_value)
    return None


_Vector = np.ndarray[Any, Any]


def _affine(call: relax.Call, new: dict[Any, Any]) -> tuple[_Vector, _Vector] | None:
    """Scale and shift of a batch norm over channels (axis 1) of known statistics."""
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
    scale: _Vector,
    shift: _Vector,
    defined: dict[Any, Any],
    uses: Counter[Any],
    new: dict[Any, Any],
) -> Any:
    """``data * scale + shift`` with the factors inside the convolutions; None if there are none."""
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
        known = constant_value(substitute(value.args[1], new))
        inner = value.args[0]
        if known is None or uses[inner] != 1:
            return None
        if (1,) * (4 - known.ndim) + known.shape != (1, shift.size, 1, 1):
            return None
        bias, value = known.reshape(-1), defined.get(inner)
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
