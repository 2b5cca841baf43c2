"""The operator graph: the representation of a model that every scheduler reads.

An :class:`OpGraph` is an immutable directed acyclic graph of operators and tensors. It is made from
an ONNX file without TVM (:mod:`tvm_ios.onnx.graph`) or from a TVM module (:mod:`relay_passes`), and
grouping its operators into *units* (:mod:`tvm_ios.graph.units`) gives an :class:`OpGraph` again.
Operators are numbered in topological order, so a set of operators is a Python ``int`` used as a bit
set.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from types import MappingProxyType
from typing import Any, cast

from tvm_ios.files.json_text import natural, naturals
from tvm_ios.graph.elements import AttrValue, GraphError, Operator, Tensor, known_dtype
from tvm_ios.graph.fingerprint import fingerprint


def bits(mask: int) -> Iterator[int]:
    """Yield the members of a bit set, smallest first."""
    while mask:
        low = mask & -mask
        yield low.bit_length() - 1
        mask ^= low


def mask_of(members: Iterable[int]) -> int:
    """Return the bit set of some operator numbers."""
    mask = 0
    for member in members:
        mask |= 1 << member
    return mask


def successors_of(predecessors: Sequence[int]) -> tuple[int, ...]:
    """Return, for each node, the bit set of those that read from it."""
    successors = [0] * len(predecessors)
    for node, before in enumerate(predecessors):
        for source in bits(before):
            successors[source] |= 1 << node
    return tuple(successors)


def closures(neighbours: Sequence[int], order: Iterable[int]) -> tuple[int, ...]:
    """Return, for each node, the bit set of all nodes that can be reached from it, without itself.

    ``neighbours`` are bit sets, such as those of predecessors; ``order`` has each node after its
    neighbours.
    """
    closed = [0] * len(neighbours)
    for node in order:
        mask = neighbours[node]
        for near in bits(neighbours[node]):
            mask |= closed[near]
        closed[node] = mask
    return tuple(closed)


@dataclass(frozen=True)
class OpGraph:
    """An immutable graph of operators, numbered in topological order.

    Raises
    ------
    GraphError
        If the numbering is not topological, a tensor has two producers, or an operator reads
        a tensor that nothing produces.
    """

    name: str
    operators: tuple[Operator, ...]
    tensors: tuple[Tensor, ...]
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]

    def __post_init__(self) -> None:
        named = [t for op in self.operators for t in (*op.inputs, *op.outputs)]
        for tensor in (*self.inputs, *self.outputs, *named):
            if not 0 <= tensor < len(self.tensors):
                raise GraphError(f"the graph names tensor {tensor}, which does not exist")
        produced = set(self.inputs) | {i for i, t in enumerate(self.tensors) if t.constant}
        for op in self.operators:
            for tensor in op.inputs:
                if tensor not in produced:
                    raise GraphError(
                        f"operator {op.name!r} reads tensor {self.tensors[tensor].name!r} "
                        "before anything has produced it"
                    )
            for tensor in op.outputs:
                if tensor in produced:
                    raise GraphError(f"tensor {self.tensors[tensor].name!r} has two producers")
                produced.add(tensor)
        for tensor in self.outputs:
            if tensor not in produced:
                raise GraphError(f"graph output {self.tensors[tensor].name!r} is never produced")

    def __len__(self) -> int:
        return len(self.operators)

    @cached_property
    def producer(self) -> tuple[int | None, ...]:
        """For each tensor the operator that produces it; None for inputs and constants."""
        producer: list[int | None] = [None] * len(self.tensors)
        for i, op in enumerate(self.operators):
            for tensor in op.outputs:
                producer[tensor] = i
        return tuple(producer)

    @cached_property
    def consumers(self) -> tuple[tuple[int, ...], ...]:
        """For each tensor the operators that read it, each once, in order."""
        consumers: list[list[int]] = [[] for _ in self.tensors]
        for i, op in enumerate(self.operators):
            for tensor in dict.fromkeys(op.inputs):
                consumers[tensor].append(i)
        return tuple(map(tuple, consumers))

    @cached_property
    def predecessors(self) -> tuple[int, ...]:
        """For each operator the bit set of the operators it reads from."""
        producer = self.producer
        return tuple(
            mask_of(p for t in op.inputs if (p := producer[t]) is not None) for op in self.operators
        )

    @cached_property
    def successors(self) -> tuple[int, ...]:
        """For each operator the bit set of the operators that read from it."""
        return successors_of(self.predecessors)

    @cached_property
    def depth(self) -> tuple[int, ...]:
        """For each operator how many others stand before it on the longest path to it."""
        depth: list[int] = []
        producer = self.producer
        for op in self.operators:
            sources = (p for t in op.inputs if (p := producer[t]) is not None)
            depth.append(1 + max((depth[p] for p in sources), default=-1))
        return tuple(depth)

    @cached_property
    def ancestors(self) -> tuple[int, ...]:
        """For each operator the bit set of all operators it depends on, itself excluded."""
        return closures(self.predecessors, range(len(self)))

    @property
    def all_operators(self) -> int:
        """The bit set of every operator."""
        return (1 << len(self.operators)) - 1

    @property
    def batch(self) -> int:
        """Leading extent of the first input; 1 where there is none."""
        shapes = [self.tensors[tensor].shape for tensor in self.inputs]
        return shapes[0][0] if shapes and shapes[0] else 1

    def operator_bytes(self, index: int) -> int:
        """Return the bytes that an operator reads and writes uncached, weights included."""
        op = self.operators[index]
        return sum(self.tensors[t].nbytes for t in (*dict.fromkeys(op.inputs), *op.outputs))

    @cached_property
    def fingerprint(self) -> str:
        """Canonical hash of kinds, attributes, shapes and edges, without names and order."""
        return fingerprint(self.operators, self.tensors, self.inputs, self.outputs)

    def to_json(self) -> dict[str, Any]:
        """Return plain data, the inverse of :meth:`from_json`."""
        return {
            "format": "tvm-ios graph",
            "version": 1,
            "name": self.name,
            "tensors": [[t.name, t.shape, t.dtype, t.constant] for t in self.tensors],
            "operators": [
                {
                    "name": op.name,
                    "kind": op.kind,
                    "inputs": op.inputs,
                    "outputs": op.outputs,
                    "attrs": dict(op.attrs),
                    "flops": op.flops,
                    "members": op.members,
                }
                for op in self.operators
            ],
            "inputs": self.inputs,
            "outputs": self.outputs,
        }

    @staticmethod
    def from_json(data: Mapping[str, Any]) -> OpGraph:
        """Read the data that :meth:`to_json` wrote.

        Raises
        ------
        GraphError
            If the data is not a graph of this version.
        """
        if data.get("format") != "tvm-ios graph" or data.get("version") != 1:
            raise GraphError("this is not a tvm-ios graph of version 1")
        try:
            return OpGraph(
                name=str(data["name"]),
                tensors=tuple(
                    Tensor(str(name), naturals(shape), known_dtype(dtype), bool(constant))
                    for name, shape, dtype, constant in data["tensors"]
                ),
                operators=tuple(
                    Operator(
                        name=str(op["name"]),
                        kind=str(op["kind"]),
                        inputs=naturals(op["inputs"]),
                        outputs=naturals(op["outputs"]),
                        attrs=MappingProxyType({k: _freeze(v) for k, v in op["attrs"].items()}),
                        flops=natural(op["flops"]),
                        members=naturals(op["members"]),
                    )
                    for op in data["operators"]
                ),
                inputs=naturals(data["inputs"]),
                outputs=naturals(data["outputs"]),
            )
        except GraphError:
            raise
        except (KeyError, TypeError, IndexError, ValueError, AttributeError) as error:
            raise GraphError(f"the graph file lacks or misstates {error}") from error


def _freeze(value: Any) -> AttrValue:
    return tuple(map(_freeze, cast(list[Any], value))) if isinstance(value, list) else value
