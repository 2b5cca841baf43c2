"""Build the merged convolution of several units as a Relay function."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from tvm import relay

from tvm_ios.graph.merge_rule import MergePlan

_ACTIVATIONS: dict[str, Callable[[Any], Any]] = {
    "relu": relay.nn.relu,
    "sigmoid": relay.sigmoid,
    "tanh": relay.tanh,
}


def merged_function(plan: MergePlan, data_type: Any, weights: tuple[Any, Any]) -> relay.Function:
    """Return a function of the data (NCHW) and the stacked kernel and bias of a merge plan."""
    parameters = [
        relay.Var("p0", data_type),
        *(
            relay.var(f"p{i}", shape=c.data.shape, dtype=c.data.dtype)
            for i, c in enumerate(weights, 1)
        ),
    ]
    outputs = emit_stacked(lambda call: call, plan, parameters[0], parameters[1:])
    return relay.Function(parameters, relay.Tuple(outputs))


def emit_stacked(
    emit: Callable[[Any], Any],
    plan: MergePlan,
    data: Any,
    weights: Sequence[Any],
    pads: Sequence[int] | None = None,
) -> list[Any]:
    """Emit one convolution for all units of a plan and split its result; return each unit's part.

    ``weights`` are the stacked kernel and bias; ``pads`` (top, left, bottom, right) replace the
    plan's if given. ``emit`` gets every call and returns its replacement.
    """

    def activate(kind: str, value: Any) -> Any:
        return value if kind == "none" else emit(_ACTIVATIONS[kind](value))

    y = emit(
        relay.nn.conv2d(
            data,
            weights[0],
            strides=plan.strides,
            padding=pads or plan.pads,
            dilation=plan.dilations,
            channels=sum(plan.out_channels),
            kernel_size=plan.kernel,
            out_dtype=plan.out_dtype,
        )
    )
    y = emit(relay.add(y, weights[1]))
    shared = len(set(plan.activations)) == 1
    if shared:
        y = activate(plan.activations[0], y)
    cuts = np.cumsum(plan.out_channels)[:-1].tolist()
    parts = emit(relay.split(y, cuts, axis=1).tuple_value)
    outputs = [relay.TupleGetItem(parts, place) for place in range(len(plan.units))]
    if not shared:
        pairs = zip(plan.activations, outputs, strict=True)
        outputs = [activate(kind, output) for kind, output in pairs]
    return outputs
