"""Name unnamed nodes."""

from __future__ import annotations

from itertools import count
from typing import Any


def name_by_type(graph: Any) -> None:
    """Name each unnamed ``onnx_ir`` node by its type and the first free number: ``Conv_0``."""
    taken = {node.name for node in graph}
    numbers: dict[str, count[int]] = {}
    for node in graph:
        if not node.name:
            places = numbers.setdefault(node.op_type, count())
            node.name = next(n for i in places if (n := f"{node.op_type}_{i}") not in taken)
