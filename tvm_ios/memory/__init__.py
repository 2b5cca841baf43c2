"""Operator orders with a small peak memory, and places for buffers: a library without TVM."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tvm_ios.memory.ordering import Node, TensorGraph, order
    from tvm_ios.memory.planning import Bank, Buffer, Plan, plan

__all__ = ["Bank", "Buffer", "Node", "Plan", "TensorGraph", "order", "plan"]

_MODULES = {
    **dict.fromkeys(("Node", "TensorGraph", "order"), "ordering"),
    **dict.fromkeys(("Bank", "Buffer", "Plan", "plan"), "planning"),
}


def __getattr__(name: str) -> Any:
    # Whoever imports one module of this folder does not wait for all of them.
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_MODULES[name]}"), name)
