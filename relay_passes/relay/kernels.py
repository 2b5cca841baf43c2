"""A unit's kernels: TVM fuses inside the unit, as it would fuse a whole module."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import tvm
from tvm import relay
from tvm.relay.expr_functor import ExprMutator

from relay_passes.relay.expressions import post_order
from relay_passes.unit_outliner import UnitFunction
from runtime_ext.relay.in_place import Concatenation, TensorRanges, concatenation

#: What relay.build uses; FuseOps of level 0 would fuse nothing.
_FUSE_OPT_LEVEL = 2
#: What FuseOps notes of such functions.
_RESHAPE_ONLY = "relay.reshape_only"


@dataclass(frozen=True)
class RelayUnitFunction(UnitFunction):
    """A unit, or merged units, as a Relay function.

    Attributes
    ----------
    cuts
        How what it reads and returns lies in memory, where some of it lies in other tensors.
    silent
        It only concatenates what lies side by side already: there is nothing to compute.
    """

    cuts: TensorRanges = ()
    silent: bool = False

    @cached_property
    def kernels(self) -> relay.Function:
        """The function as calls of Primitive function literals."""
        return fuse(self.function)


def fuse(function: relay.Function) -> relay.Function:
    """A function whose calls are all of Primitive function literals, each one kernel.

    A kernel holds at most one operator that has a schedule of its own (a convolution, a dense
    layer), so a separable convolution is two kernels, and so is a merged one and its split.
    """
    module = tvm.IRModule.from_expr(function)
    passes = [relay.transform.InferType(), relay.transform.FuseOps(_FUSE_OPT_LEVEL)]
    fused = _Copying().visit(tvm.transform.Sequential(passes)(module)["main"])
    return relay.transform.InferType()(tvm.IRModule.from_expr(fused))["main"]


class _Copying(ExprMutator):
    """Has kernels that only reshape copy: TVM would let input and output share their bytes.

    Of such a call there is no kernel in the library, and who else reads or writes those bytes is
    known to the graph executor's plan of memory alone, which holds for its own order.
    """

    def visit_function(self, fn: relay.Function) -> relay.Function:
        function = super().visit_function(fn)
        copies = _RESHAPE_ONLY in (function.attrs or {})
        return function.without_attr(_RESHAPE_ONLY) if copies else function


def kernel_calls(function: relay.Function) -> list[Any]:
    """The calls of kernels in a function that :func:`fuse` returned, in order."""
    return [e for e in post_order(function) if isinstance(e, relay.Call)]


def unit_concatenation(unit: RelayUnitFunction) -> Concatenation | None:
    """What a unit concatenates of its data, if it does nothing else."""
    calls = kernel_calls(unit.kernels)
    joined = concatenation(calls[0]) if len(calls) == 1 and not unit.constants else None
    if joined is None:
        return None
    place = {parameter: number for number, parameter in enumerate(unit.kernels.params)}
    fields = tuple(place[calls[0].args[field]] for field in joined.fields)
    return replace(joined, inputs=len(place), fields=fields)
