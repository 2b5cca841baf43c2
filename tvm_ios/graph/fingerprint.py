"""The canonical hash of an operator graph."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from typing import Any

from tvm_ios.graph.elements import Operator, Tensor


def fingerprint(
    operators: Sequence[Operator],
    tensors: Sequence[Tensor],
    inputs: Sequence[int],
    outputs: Sequence[int],
) -> str:
    """Return the hash of kinds, attributes, types and edges; names and order do not count.

    Each operator is hashed from its kind, its attributes and its inputs' hashes, and again from
    this and from all that reads it, because two equal operators may have different readers. The
    graph is the sorted multiset of the second hashes; constants count by their types.
    """
    above = _hash_by_inputs(operators, tensors, inputs)
    below = [""] * len(operators)
    leaving: dict[int, list[int]] = {}
    for position, tensor in enumerate(outputs):
        leaving.setdefault(tensor, []).append(position)
    readers: dict[int, list[tuple[int, int]]] = {}
    for reader, op in enumerate(operators):
        for position, tensor in enumerate(op.inputs):
            readers.setdefault(tensor, []).append((reader, position))

    def uses(tensor: int) -> list[Any]:
        read = sorted((below[reader], position) for reader, position in readers.get(tensor, []))
        return [leaving.get(tensor, []), read]

    for i in reversed(range(len(operators))):
        below[i] = _digest([above[i], [uses(tensor) for tensor in operators[i].outputs]])
    entering = [[_type(tensors[tensor]), uses(tensor)] for tensor in inputs]
    return _digest([entering, sorted(below), len(outputs)])[:32]


def _hash_by_inputs(
    operators: Sequence[Operator], tensors: Sequence[Tensor], inputs: Sequence[int]
) -> list[str]:
    names = {t: f"input{position}" for position, t in enumerate(inputs)}
    hashes: list[str] = []
    for op in operators:
        reads = [[names.get(t, "constant"), _type(tensors[t])] for t in op.inputs]
        writes = [_type(tensors[t]) for t in op.outputs]
        hashes.append(_digest([op.kind, sorted(op.attrs.items()), reads, writes]))
        names |= {t: f"{hashes[-1]}.{position}" for position, t in enumerate(op.outputs)}
    return hashes


def _digest(data: Any) -> str:
    return hashlib.sha256(json.dumps(data).encode()).hexdigest()


def _type(tensor: Tensor) -> str:
    return f"{tensor.dtype}{list(tensor.shape)}"
