"""Remove casts to a shape that is known anyway; refuse modules that are lowered too far."""

from __future__ import annotations

from typing import Any

import tvm
from tvm import relax

from relay_passes.dialect import DialectError
from relay_passes.relax.expressions import operator_name
from runtime_ext.allocated import empty_constant, is_allocation
from runtime_ext.module_copies import with_main

#: Prefixes of operators that TVM inserts when it lowers a module for the virtual machine.
_LOWERED = ("relax.vm.", "relax.memory.", "relax.builtin.", "relax.null_value")


def without_casts(module: tvm.IRModule) -> tvm.IRModule:
    """Remove casts (``match_cast``) to a known shape from ``main``.

    Raise DialectError for any other cast, or if the module is lowered for the virtual machine.
    """
    main = module["main"]
    if not isinstance(main.body, relax.SeqExpr):
        return module
    bindings = [binding for block in main.body.blocks for binding in block.bindings]
    for binding in bindings:
        name = operator_name(binding.value)
        if name.startswith(_LOWERED) and not is_allocation(binding.value):
            raise DialectError(
                f"main is lowered for TVM's virtual machine already ({name}): schedule the module "
                "from before that"
            )
    if not any(isinstance(b, relax.MatchCast) or is_allocation(b.value) for b in bindings):
        return module
    blocks = [type(block)(list(map(_plain, block.bindings))) for block in main.body.blocks]
    body = relax.SeqExpr(blocks, main.body.body)
    plain = relax.Function(main.params, body, main.ret_ty, main.is_pure, main.attrs)
    return with_main(module, plain)


def _plain(binding: relax.Binding) -> relax.Binding:
    if is_allocation(binding.value):
        return relax.VarBinding(binding.var, empty_constant(binding.value))
    if not isinstance(binding, relax.MatchCast):
        return binding
    known, wanted = _described(binding.value.ty), _described(binding.ty)
    if known is None or known != wanted:
        raise DialectError(
            f"main casts {binding.var.name!r} to {binding.ty} (match_cast), of which the shape is "
            "known only when it runs: fix the shapes"
        )
    return relax.VarBinding(binding.var, binding.value)


def _described(kind: Any) -> tuple[tuple[int, ...], str] | None:
    """Return the shape and type of a tensor, or None if its shape is not static."""
    extents = kind.shape if isinstance(kind, relax.TensorType) else None
    if extents is None or not all(isinstance(extent, tvm.tirx.IntImm) for extent in extents):
        return None
    return tuple(map(int, extents)), str(kind.dtype)
