"""Inline the functions that ``main`` calls: global ones, and those of fused operators."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import tvm
from tvm import relay

from relay_passes.dialect import DialectError
from relay_passes.relay.expressions import reached, substitute
from runtime_ext.relay.module_copies import with_functions


def with_calls_inlined(module: tvm.IRModule) -> tvm.IRModule:
    """Inline all functions that ``main`` calls; its types are to be inferred again.

    Inlined functions are removed unless the module has others too. Raise DialectError if a function
    calls itself, or is for another code generator.
    """
    inliner = _Inliner(module)
    old = module["main"]
    body = inliner.inlined(old.body, {})
    if not inliner.calls:
        return module
    main = relay.Function(old.params, body, None, old.type_params, old.attrs)
    functions = {v: main if v.name_hint == "main" else f for v, f in module.functions.items()}
    if len(functions) == 1 + len(inliner.variables):
        functions = {v: f for v, f in functions.items() if v.name_hint == "main"}
    return with_functions(module, functions)


class _Inliner:
    """A rewriter that inlines called functions into expressions.

    ``calls`` counts inlined calls, and ``variables`` are the global functions among the callees.
    """

    def __init__(self, module: tvm.IRModule) -> None:
        self.calls = 0
        self.variables: set[relay.GlobalVar] = set()
        self._module = module
        self._open: list[relay.GlobalVar] = []

    def inlined(self, body: Any, values: dict[Any, Any]) -> Any:
        """Return an expression with its variables replaced by values and its calls inlined."""
        for expression in reached(body, set(values)):
            same = substitute(expression, values.__getitem__)
            callee = same.op if isinstance(same, relay.Call) else None
            if isinstance(callee, relay.Function | relay.GlobalVar):
                same = self._called(callee, same.args)
            values[expression] = same
        return values[body]

    def _called(self, callee: Any, arguments: Sequence[Any]) -> Any:
        self.calls += 1
        if isinstance(callee, relay.Function):
            return self._body(callee, "a function", arguments)
        if callee in self._open:
            raise DialectError("main calls a function that calls itself: unroll it")
        self.variables.add(callee)
        self._open.append(callee)
        value = self._body(self._module[callee], repr(callee.name_hint), arguments)
        self._open.pop()
        return value

    def _body(self, function: Any, name: str, arguments: Sequence[Any]) -> Any:
        if not isinstance(function, relay.Function):
            raise DialectError(
                f"main calls {name}, which is no Relay function: schedule the module from before "
                "it was lowered"
            )
        if function.attrs and "Compiler" in function.attrs:
            raise DialectError(
                f"main calls {name}, which is made by another code generator: schedule the module "
                "from before it was partitioned"
            )
        return self.inlined(function.body, dict(zip(function.params, arguments, strict=True)))
