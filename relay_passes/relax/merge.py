"""Build the merged convolution of several units as a Relax function."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from tvm import relax

from relay_passes.relax.expressions import Emit
from runtime_ext.kernels.function_builder import FunctionBuilder
from tvm_ios.graph.merge_rule import MergePlan

_ACTIVATIONS: dict[str, Callable[[Any], Any]] = {
    "relu": relax.op.nn.relu,
    "sigmoid": relax.op.sigmoid,
    "tanh": relax.op.tanh,
}


def merged_function(plan: MergePlan, data_type: Any, weights: tuple[Any, Any]) -> relax.Function:
    """Return a private function of the data (NCHW) and a merge plan's stacked kernel and bias."""
    parameters = [
        relax.Var("p0", data_type),
        *(relax.Var(f"p{i}", value.ty) for i, value in enumerate(weights, 1)),
    ]
    builder = FunctionBuilder()
    attributes = {"num_input": 1}
    with builder.function("merged", parameters, attrs=attributes, private=True):
        with builder.dataflow():
            outputs = emit_stacked(builder.emit, plan, parameters[0], parameters[1:])
            result = builder.emit_output(relax.Tuple(outputs))
        variable = builder.emit_func_output(result)
    return builder.finalize()[variable]


def emit_stacked(
    emit: Emit,
    plan: MergePlan,
    data: Any,
    weights: Sequence[Any],
    pads: Sequence[int] | None = None,
) -> list[Any]:
    """Emit one convolution for all units of a plan and split its result; return each unit's part.

    ``weights`` are the stacked kernel and bias; ``pads`` (top, left, bottom, right) replace the
    plan's if given.
    """

    def activate(kind: str, value: Any) -> Any:
        return value if kind == "none" else emit(_ACTIVATIONS[kind](value))

    y = relax.op.nn.conv2d(
        data,
        weights[0],
        strides=list(plan.strides),
        padding=list(pads or plan.pads),
        dilation=list(plan.dilations),
        out_dtype=plan.out_dtype or None,
    )
    y = emit(relax.op.add(emit(y), weights[1]))
    shared = len(set(plan.activations)) == 1
    if shared:
        y = activate(plan.activations[0], y)
    cuts = np.cumsum(plan.out_channels)[:-1].tolist()
    parts = emit(relax.op.split(y, cuts, axis=1))
    outputs = [emit(relax.TupleGetItem(parts, i)) for i in range(len(plan.units))]
    if not shared:
        pairs = zip(plan.activations, outputs, strict=True)
        outputs = [activate(kind, output) for kind, output in pairs]
    return outputs
