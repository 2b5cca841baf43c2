"""The merged convolution of several units, as a Relax function."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from tvm import relax

from relay_passes.relax.fold_constants import constant
from tvm_ios.merge_rule import MergePlan
from tvm_ios.merged_weights import Array, merged_weights

_ACTIVATIONS: dict[str, Callable[[Any], Any]] = {
    "relu": relax.op.nn.relu,
    "sigmoid": relax.op.sigmoid,
    "tanh": relax.op.tanh,
}


def emit_merged(
    plan: MergePlan, data_type: Any, weights: Sequence[Sequence[Array]]
) -> tuple[relax.Function, tuple[Any, ...]]:
    """A private function and the constants of its parameters after the first.

    Parameters
    ----------
    plan
        Where each kernel lies.
    data_type
        Relax type of the data that all read, NCHW.
    weights
        For each unit its kernel (O, I, kh, kw), and its bias if it has one.
    """
    stacked, bias = (constant(array) for array in merged_weights(plan, weights))
    constants = (stacked, bias)
    parameters = [
        relax.Var("p0", data_type),
        *(relax.Var(f"p{i}", value.ty) for i, value in enumerate(constants, 1)),
    ]
    builder = relax.BlockBuilder()
    attributes = {"num_input": 1}
    with builder.function("merged", parameters, attrs=attributes, private=True):
        with builder.dataflow():
            y = relax.op.nn.conv2d(
                parameters[0],
                parameters[1],
                strides=list(plan.strides),
                padding=list(plan.pads),
                dilation=list(plan.dilations),
            )
            y = builder.emit(relax.op.add(builder.emit(y), parameters[2]))
            shared = len(set(plan.activations)) == 1
            if shared:
                y = _activate(builder, plan.activations[0], y)
            cuts = np.cumsum(plan.out_channels)[:-1].tolist()
            parts = builder.emit(relax.op.split(y, cuts, axis=1))
            outputs = [builder.emit(relax.TupleGetItem(parts, i)) for i in range(len(plan.units))]
            if not shared:
                pairs = zip(plan.activations, outputs, strict=True)
                outputs = [_activate(builder, name, output) for name, output in pairs]
            result = builder.emit_output(relax.Tuple(outputs))
        variable = builder.emit_func_output(result)
    return builder.finalize()[variable], constants


def _activate(builder: relax.BlockBuilder, name: str, data: Any) -> Any:
    return data if name == "none" else builder.emit(_ACTIVATIONS[name](data))
