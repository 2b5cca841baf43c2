"""Copy Relay modules with changes, since TVM's own setters would modify the caller's module."""

from __future__ import annotations

from typing import Any

import tvm
from tvm import relay


def with_main(module: tvm.IRModule, main: relay.Function) -> tvm.IRModule:
    """Return a copy of the module with another ``main``, and types inferred."""
    functions = {v: f for v, f in module.functions.items() if v.name_hint != "main"}
    functions[relay.GlobalVar("main")] = main
    return relay.transform.InferType()(with_functions(module, functions))


def with_functions(module: tvm.IRModule, functions: dict[Any, Any]) -> tvm.IRModule:
    """Return a copy of the module with other functions."""
    types, attributes = module.type_definitions, module.attrs
    return tvm.IRModule(functions, types, attributes)  # pyright: ignore[reportCallIssue]
