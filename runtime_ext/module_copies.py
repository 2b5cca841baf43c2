"""Copy Relax modules, keeping attributes and devices."""

# TVM's nodes get their attributes at run time.
# pyright: reportAttributeAccessIssue=false
from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import tvm
from tvm import relax


def with_functions(module: tvm.IRModule, functions: Mapping[Any, Any]) -> tvm.IRModule:
    """Return a copy of the module with other functions."""
    return tvm.IRModule(functions, attrs=module.attrs, global_infos=module.global_infos)


def with_main(module: tvm.IRModule, main: relax.Function) -> tvm.IRModule:
    """Return a copy of the module with another ``main``."""
    functions = {v: main if v.name_hint == "main" else f for v, f in module.functions_items()}
    return with_functions(module, functions)
