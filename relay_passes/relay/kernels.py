"""A unit's kernels: TVM fuses inside the unit, as it would fuse a whole module."""

from __future__ import annotations

from typing import Any

import tvm
from tvm import relay

from relay_passes.relay.expressions import post_order

#: What relay.build uses; FuseOps of level 0 would fuse nothing.
_FUSE_OPT_LEVEL = 2


def fuse(function: relay.Function) -> relay.Function:
    """A function whose calls are all of Primitive function literals, each one kernel.

    A kernel holds at most one operator that has a schedule of its own (a convolution, a dense
    layer), so a separable convolution is two kernels, and so is a merged one and its split.
    """
    module = tvm.IRModule.from_expr(function)
    passes = [
        relay.transform.InferType(),
        relay.transform.FuseOps(_FUSE_OPT_LEVEL),
        relay.transform.InferType(),
    ]
    return tvm.transform.Sequential(passes)(module)["main"]


def kernel_calls(function: relay.Function) -> list[Any]:
    """The calls of kernels in a function that :func:`fuse` returned, in order."""
    return [e for e in post_order(function) if isinstance(e, relay.Call)]
