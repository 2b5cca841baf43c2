"""Divide a unit into kernels: TVM fuses within the unit as it would within a whole module."""

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

#: The level that relay.build uses; FuseOps of level 0 would fuse nothing.
_FUSE_OPT_LEVEL = 2
#: The attribute by which FuseOps marks functions that only reshape.
_RESHAPE_ONLY = "relay.reshape_only"


@dataclass(frozen=True)
class RelayUnitFunction(UnitFunction):
    """A unit, or merged units, as a Relay function."""

    #: The ranges of inputs and outputs that are parts of other tensors.
    cuts: TensorRanges = ()
    #: Whether it only concatenates tensors that are adjacent in memory, so that nothing runs.
    silent: bool = False

    @cached_property
    def kernels(self) -> relay.Function:
        """The function as calls of Primitive function literals."""
        return fuse(self.function)


def fuse(function: relay.Function) -> relay.Function:
    """Return a function that only calls Primitive function literals, each of which is one kernel.

    A kernel holds at most one operator that has a schedule of its own (a convolution, a dense
    layer), so a separable convolution is two kernels, and so is a merged one and its split.
    """
    module = tvm.IRModule.from_expr(function)
    passes = [relay.transform.InferType(), relay.transform.FuseOps(_FUSE_OPT_LEVEL)]
    fused = _Copying().visit(tvm.transform.Sequential(passes)(module)["main"])
    return relay.transform.InferType()(tvm.IRModule.from_expr(fused))["main"]


class _Copying(ExprMutator):
    """A mutator that makes kernels that only reshape copy their input.

    TVM would alias input and output and compile no kernel for such a call, and only the graph
    executor's memory plan, made for its own order, would know of the alias.
    """

    def visit_function(self, fn: relay.Function) -> relay.Function:
        function = super().visit_function(fn)
        copies = _RESHAPE_ONLY in (function.attrs or {})
        return function.without_attr(_RESHAPE_ONLY) if copies else function


def kernel_calls(function: relay.Function) -> list[Any]:
    """Return the calls of kernels in a function that :func:`fuse` returned, in order."""
    return [e for e in post_order(function) if isinstance(e, relay.Call)]


def unit_concatenation(unit: RelayUnitFunction) -> Concatenation | None:
    """Return the concatenation of its data that a unit is, or None if it does anything else."""
    calls = kernel_calls(unit.kernels)
    joined = concatenation(calls[0]) if len(calls) == 1 and not unit.constants else None
    if joined is None:
        return None
    place = {parameter: number for number, parameter in enumerate(unit.kernels.params)}
    fields = tuple(place[calls[0].args[field]] for field in joined.fields)
    return replace(joined, inputs=len(place), fields=fields)
