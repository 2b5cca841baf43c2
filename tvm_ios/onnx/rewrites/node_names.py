"""Names for nodes that have none."""

from __future__ import annotations

from itertools import count
from typing import Any


def name_by_type(graph: Any) -> None:
    """Give each node without a name its type and the first number that makes it one: ``Conv_0``.

    ``graph`` is one of ``onnx_ir``, whose passes would say ``node_17``.
    """
    taken = {node.name for node in graph}
    numbers: dict[str, count[int]] = {}
    for node in graph:
        if not node.name:
            places = numbers.setdefault(node.op_type, count())
            node.name = next(n for i in places if (n := f"{node.op_type}_{i}") not in taken)
