"""Reorder a Relax module: the stages of a scheduled one, or the bindings of another."""

from __future__ import annotations

from collections.abc import Sequence

import tvm
from tvm import relax

from relay_passes.relax.expressions import bindings_of
from relay_passes.relax.extract import extract
from relay_passes.relax.reorder import reorder
from relay_passes.reordering import Reordering
from runtime_ext.ir_form import STAGE
from runtime_ext.module_copies import with_functions
from runtime_ext.scheduled_module import read_scheduled_module
from tvm_ios.graph.op_graph import OpGraph
from tvm_ios.memory.operators import with_biases
from tvm_ios.schedule.stage import Stage


def operators_of(module: tvm.IRModule) -> Reordering:
    """Return the operators of a canonical module that can be reordered.

    A bias stays with its convolution or dense layer.
    """
    extraction = extract(module)
    graph = with_biases(extraction.graph)
    present = tuple(sorted(range(len(graph)), key=lambda op: max(graph.operators[op].members)))

    def apply(order: Sequence[int]) -> tvm.IRModule:
        if tuple(order) == present:
            return module
        members = (member for operator in order for member in graph.operators[operator].members)
        return reorder(module, [extraction.bindings[member] for member in members])

    return Reordering(graph, present, apply)


def stages_of(module: tvm.IRModule) -> tuple[OpGraph, tuple[Stage, ...]]:
    """Return the graph of units of a scheduled module, and its stages."""
    read = read_scheduled_module(module)
    return read.graph, read.stages


def with_stages(module: tvm.IRModule, order: Sequence[int]) -> tvm.IRModule:
    """Return a scheduled module with the calls and attributes of its stages in another order."""
    new = {old: place for place, old in enumerate(order)}
    stages: list[list[relax.VarBinding]] = [[] for _ in order]
    for binding in bindings_of(module["main"]):
        value = binding.value
        if isinstance(value, relax.Call) and isinstance(value.op, tvm.ir.GlobalVar):
            stages[new[int(module[value.op].attrs[STAGE])]].append(binding)
    moved = reorder(module, stages)
    functions = {
        variable: function.with_attr(STAGE, new[int(function.attrs[STAGE])])
        if function.attrs and STAGE in function.attrs
        else function
        for variable, function in moved.functions_items()
    }
    return with_functions(moved, functions)
