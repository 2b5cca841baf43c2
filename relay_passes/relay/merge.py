"""The merged convolution of several units, as a Relay function."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from tvm import relay

from relay_passes.relay.expressions import constant
from tvm_ios.merge_rule import MergePlan
from tvm_ios.merged_weights import Array, merged_weights

_ACTIVATIONS: dict[str, Callable[[Any], Any]] = {
    "none": lambda data: data,
    "relu": relay.nn.relu,
    "sigmoid": relay.sigmoid,
    "tanh": relay.tanh,
}


def merged_function(
    plan: MergePlan, data_type: Any, weights: Sequence[Sequence[Array]]
) -> tuple[relay.Function, tuple[Any, ...]]:
    """A function and the constants of its parameters after the first.

    Parameters
    ----------
    plan
        Where each kernel lies.
    data_type
        Relay type of the data that all read, NCHW.
    weights
        For each unit its kernel (O, I, kh, kw), and its bias if it has one.
    """
    kernel, bias = merged_weights(plan, weights)
    constants = (constant(kernel), constant(bias.reshape(-1, 1, 1)))
    parameters = [
        relay.Var("p0", data_type),
        *(
            relay.var(f"p{i}", shape=c.data.shape, dtype=c.data.dtype)
            for i, c in enumerate(constants, 1)
        ),
    ]
    y = relay.nn.conv2d(
        parameters[0],
        parameters[1],
        strides=plan.strides,
        padding=plan.pads,
        dilation=plan.dilations,
        channels=kernel.shape[0],
        kernel_size=plan.kernel,
    )
    y = relay.add(y, parameters[2])
    shared = len(set(plan.activations)) == 1
    if shared:
        y = _ACTIVATIONS[plan.activations[0]](y)
    cuts = np.cumsum(plan.out_channels)[:-1].tolist()
    outputs = list(relay.split(y, cuts, axis=1))
    if not shared:
        pairs = zip(plan.activations, outputs, strict=True)
        outputs = [_ACTIVATIONS[name](output) for name, output in pairs]
    return relay.Function(parameters, relay.Tuple(outputs)), constants
