"""Attach to a unit's function the TIR functions that it calls, as it leaves its module."""

from __future__ import annotations

from typing import Any

import tvm
from tvm import relax

#: The attribute of a unit's function that holds the TIR functions by name.
_TIR = "ios.tir"
_CALL_TIR = tvm.ir.Op.get("relax.call_tir")


def with_tir(function: Any, source: Any) -> Any:
    """Attach to a function the TIR functions that it calls by ``relax.call_tir``.

    ``source`` is its module, or the function of which it is a part, with its own attached.
    """
    called = _called(function)
    if not called:
        return function
    functions = source if isinstance(source, tvm.IRModule) else source.attrs[_TIR]
    return function.with_attr(_TIR, {v.name_hint: functions[v.name_hint] for v in called})


def without_tir(function: Any) -> tuple[Any, tvm.IRModule]:
    """Return the function alone, and a module of the private TIR functions attached to it."""
    called = _called(function)
    if not called:
        return function, tvm.IRModule()
    functions = function.attrs[_TIR]
    private = {v: functions[v.name_hint].without_attr("global_symbol") for v in called}
    return function.without_attr(_TIR), tvm.IRModule(private)


def _called(function: Any) -> list[Any]:
    calls = (binding.value for block in function.body.blocks for binding in block.bindings)
    functions = [c.args[0] for c in calls if isinstance(c, relax.Call) and c.op == _CALL_TIR]
    return list(dict.fromkeys(functions))
