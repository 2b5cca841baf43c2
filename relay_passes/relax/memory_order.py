"""Reorder a Relax module: the stages of a scheduled one, or the bindings of another."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import tvm
from tvm import relax

from relay_passes.relax.expressions import bindings_of, leaves
from relay_passes.relax.extract import extract
from relay_passes.reordering import Reordering
from runtime_ext.ir_form import STAGE
from runtime_ext.module_copies import with_functions, with_main
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


def reorder(module: tvm.IRModule, groups: Sequence[Sequence[relax.VarBinding]]) -> tvm.IRModule:
    """Return the module with the bindings of ``main`` group by group.

    A binding of no group (an alias, a field of a tuple) moves to where it is first needed. Groups
    must respect their data dependences; variables stay the same.
    """
    old = module["main"]
    bindings = bindings_of(old)
    maker = {binding.var: binding for binding in bindings}
    grouped = {binding.var for group in groups for binding in group}
    placed: dict[Any, relax.VarBinding] = {}

    def place(binding: relax.VarBinding) -> None:
        if binding.var in placed:
            return
        for leaf in leaves(binding.value):
            if leaf in maker and leaf not in grouped:
                place(maker[leaf])
        placed[binding.var] = binding

    for group in groups:
        first = {binding.var for binding in group}
        for binding in group:
            for leaf in leaves(binding.value):
                if leaf in maker and leaf not in first and leaf not in grouped:
                    place(maker[leaf])
        placed |= {binding.var: binding for binding in group}
    for binding in bindings:
        place(binding)
    block = relax.DataflowBlock(list(placed.values()))
    body = relax.SeqExpr([block], old.body.body)
    main = relax.Function(old.params, body, old.ret_ty, old.is_pure, old.attrs)
    # This gives the new sequence its type.
    return relax.transform.Normalize()(with_main(module, main))
