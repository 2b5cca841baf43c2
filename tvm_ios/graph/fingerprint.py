"""The canonical hash of an operator graph."""

from __future__ import annotations

import hashlib
import json
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tvm_ios.graph.op_graph import OpGraph, Tensor


def fingerprint(graph: OpGraph) -> str:
    """Hash kinds, attributes, types and edges; names and order are decoration.

    Each operator is hashed from its kind, its attributes and its inputs' hashes, and again from
    this and from all that reads it, because two equal operators may have different readers. The
    graph is the sorted multiset of the second hashes; constants count by their types.
    """
    above = _hash_by_inputs(graph)
    below = [""] * len(graph)
    leaving: dict[int, list[int]] = {}
    for position, tensor in enumerate(graph.outputs):
        leaving.setdefault(tensor, []).append(position)

    def uses(tensor: int) -> list[Any]:
        readers = sorted(
            (below[reader], position)
            for reader in graph.consumers[tensor]
            for position, read in enumerate(graph.operators[reader].inputs)
            if read == tensor
        )
        return [leaving.get(tensor, []), readers]

    for i in reversed(range(len(graph))):
        below[i] = _digest([above[i], [uses(tensor) for tensor in graph.operators[i].outputs]])
    inputs = [[_type(graph.tensors[tensor]), uses(tensor)] for tensor in graph.inputs]
    return _digest([inputs, sorted(below), len(graph.outputs)])[:32]


def _hash_by_inputs(graph: OpGraph) -> list[str]:
    names = {t: f"input{position}" for position, t in enumerate(graph.inputs)}
    hashes: list[str] = []
    for op in graph.operators:
        reads = [[names.get(t, "constant"), _type(graph.tensors[t])] for t in op.inputs]
        makes = [_type(graph.tensors[t]) for t in op.outputs]
        hashes.append(_digest([op.kind, sorted(op.attrs.items()), reads, makes]))
        names |= {t: f"{hashes[-1]}.{position}" for position, t in enumerate(op.outputs)}
    return hashes


def _digest(data: Any) -> str:
    return hashlib.sha256(json.dumps(data).encode()).hexdigest()


def _type(tensor: Tensor) -> str:
    return f"{tensor.dtype}{list(tensor.shape)}"
