"""Layers: straight lines of operators with at most one that has parameters (section 1.1)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

from tvm_ios.graph.elements import GraphError
from tvm_ios.graph.op_graph import OpGraph, mask_of
from tvm_ios.graph.operators import ACTIVATIONS, ANCHORS, ARITHMETIC, RESHAPING
from tvm_ios.graph.unit_partition import Partition
from tvm_ios.graphturbo.access import flops_of, needed
from tvm_ios.graphturbo.box import Box, hull

#: Kinds of operators that join the layer of the operator before them.
_AUXILIARY = ACTIVATIONS | ARITHMETIC | RESHAPING | {"bias_add", "cast", "erf", "softmax"}
_PARAMETERS = ANCHORS | {"matmul", "conv"}


@dataclass(frozen=True)
class Layers:
    """The layers of a graph, in topological order: the nodes that sub-graphs are made of.

    A tensor made and read inside one layer takes no memory: loop fusion keeps it in registers.
    ``members`` holds for each layer its operators in topological order. Raise GraphError if a layer
    stands before one that it reads from.
    """

    graph: OpGraph
    members: tuple[tuple[int, ...], ...]
    _needs: dict[tuple[int, tuple[tuple[int, Box], ...]], tuple[dict[int, Box], float]] = field(
        default_factory=dict[tuple[int, tuple[tuple[int, Box], ...]], tuple[dict[int, Box], float]],
        repr=False,
        compare=False,
    )

    def __post_init__(self) -> None:
        for number, mask in enumerate(self.predecessors):
            if mask >> number:
                name = self.graph.operators[self.members[number][0]].name
                raise GraphError(f"the layer of operator {name!r} reads from one after it")

    def __len__(self) -> int:
        return len(self.members)

    @cached_property
    def owner(self) -> tuple[int, ...]:
        """The layer of each operator."""
        owner = [-1] * len(self.graph)
        for number, members in enumerate(self.members):
            for op in members:
                owner[op] = number
        return tuple(owner)

    @cached_property
    def inputs(self) -> tuple[tuple[int, ...], ...]:
        """For each layer the tensors that it reads from outside, constants excluded."""
        graph = self.graph
        return tuple(
            tuple(
                dict.fromkeys(
                    t
                    for op in members
                    for t in graph.operators[op].inputs
                    if not graph.tensors[t].constant and self.maker(t) != number
                )
            )
            for number, members in enumerate(self.members)
        )

    @cached_property
    def outputs(self) -> tuple[tuple[int, ...], ...]:
        """For each layer the tensors that others read, or that are outputs of the graph."""
        return tuple(
            tuple(
                t
                for op in members
                for t in self.graph.operators[op].outputs
                if t in self.graph.outputs or self.readers(t) & ~(1 << number)
            )
            for number, members in enumerate(self.members)
        )

    @cached_property
    def predecessors(self) -> tuple[int, ...]:
        """For each layer the bit set of those that it reads from."""
        return tuple(
            mask_of(m for t in read if (m := self.maker(t)) is not None) for read in self.inputs
        )

    @cached_property
    def successors(self) -> tuple[int, ...]:
        """For each layer the bit set of those that read from it."""
        written = enumerate(self.outputs)
        return tuple(
            mask_of(self.owner[r] for t in tensors for r in self.graph.consumers[t]) & ~(1 << n)
            for n, tensors in written
        )

    @cached_property
    def weight_bytes(self) -> tuple[int, ...]:
        """For each layer the bytes of its constants; of a table, those of the rows looked up."""
        return tuple(map(self._weight_bytes, self.members))

    def _weight_bytes(self, members: Sequence[int]) -> int:
        tensors = self.graph.tensors
        sizes: dict[int, int] = {}
        for op in members:
            operator = self.graph.operators[op]
            looked_up = sum(tensors[t].nbytes for t in operator.outputs)
            for tensor in operator.inputs:
                if tensors[tensor].constant:
                    most = looked_up if operator.kind == "gather" else tensors[tensor].nbytes
                    sizes[tensor] = min(tensors[tensor].nbytes, most)
        return sum(sizes.values())

    def maker(self, tensor: int) -> int | None:
        """Return the layer that makes a tensor; None for an input of the graph."""
        op = self.graph.producer[tensor]
        return None if op is None else self.owner[op]

    def readers(self, tensor: int) -> int:
        """Return the bit set of the layers that read a tensor."""
        return mask_of(self.owner[op] for op in self.graph.consumers[tensor])

    def needs(self, layer: int, written: Mapping[int, Box]) -> tuple[dict[int, Box], float]:
        """Return the boxes that a layer reads for boxes of its outputs, and its FLOPs for them."""
        key = (layer, tuple(sorted(written.items())))
        if key not in self._needs:
            boxes, flops = self.boxes(layer, written)
            read = {t: boxes[t] for t in self.inputs[layer] if t in boxes}
            self._needs[key] = (read, flops)
        return self._needs[key]

    def boxes(self, layer: int, written: Mapping[int, Box]) -> tuple[dict[int, Box], float]:
        """Return the same as :meth:`needs`, for all tensors read or made, inner ones included."""
        boxes, flops = dict(written), 0.0
        graph = self.graph
        for op in reversed(self.members[layer]):
            for position, output in enumerate(graph.operators[op].outputs):
                if output not in boxes:
                    continue
                flops += flops_of(graph, op, position, boxes[output])
                reads = needed(graph, op, position, boxes[output])
                for tensor, box in zip(graph.operators[op].inputs, reads, strict=True):
                    if box is not None and not graph.tensors[tensor].constant:
                        boxes[tensor] = hull(boxes.get(tensor), box)
        return boxes, flops


def form_layers(graph: OpGraph, *, with_sums: bool = False) -> Layers:
    """Return the layers of a graph of operators.

    A layer is a straight line of at most one operator with parameters and auxiliary ones. Operators
    that read several tensors begin a layer; ``with_sums`` arithmetic of them continues the layer of
    that which is made last, if nothing else reads it, as TVM forms kernels.
    """
    lines = map(tuple, _straight_lines(graph, with_sums))
    return Layers(graph, tuple(sorted(lines, key=lambda line: line[-1])))


def unit_layers(graph: OpGraph, units: OpGraph) -> Layers:
    """Return units as layers with the units' numbers; on CPUs, kernels compute units.

    ``graph`` is that of the operators of which the units were formed.
    """
    return Layers(graph, tuple(unit.members for unit in units.operators))


def _straight_lines(graph: OpGraph, with_sums: bool) -> list[list[int]]:
    partition = Partition(graph)
    for op in range(len(graph)):
        sources = set(partition.sources(op))
        source = max((s for s in sources if s is not None), default=None)
        if source is None or partition.reader(source) != op:
            continue
        kind = graph.operators[op].kind
        if len(sources) > 1 and not (with_sums and kind in ARITHMETIC):
            continue
        kinds = [graph.operators[member].kind for member in partition.members(source)]
        bare = kind in _PARAMETERS and set(kinds) <= ACTIVATIONS | ARITHMETIC | {"bias_add"}
        if kind in _AUXILIARY or bare:
            partition.join(source, op)
    return partition.groups()
