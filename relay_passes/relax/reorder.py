"""Put the bindings of ``main`` into another order."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import tvm
from tvm import relax

from relay_passes.relax.expressions import bindings_of, leaves
from runtime_ext.module_copies import with_main


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
