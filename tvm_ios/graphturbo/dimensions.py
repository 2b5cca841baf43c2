"""Loop dimensions: axes of different tensors that are split together."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property

from tvm_ios.graph.op_graph import OpGraph
from tvm_ios.graphturbo.access import needed
from tvm_ios.graphturbo.box import whole


@dataclass(frozen=True)
class Dimensions:
    """The loop dimensions of a graph of operators, ``match_dim`` of the paper's Algorithm 1.

    Two axes belong to one dimension if half of one axis of an operator's result needs only a part
    of the other axis of its input, or a chain of operators connects them so.
    """

    graph: OpGraph
    _axes: dict[tuple[int, int], int | None] = field(
        default_factory=dict[tuple[int, int], "int | None"], repr=False, compare=False
    )

    def matching_axis(self, dimension: int, tensor: int) -> int | None:
        """Return the axis of a tensor along a dimension; None unless there is exactly one."""
        key = (dimension, tensor)
        if key not in self._axes:
            axes = [a for a, d in enumerate(self.of(tensor)) if d == dimension]
            self._axes[key] = axes[0] if len(axes) == 1 else None
        return self._axes[key]

    def of(self, tensor: int) -> tuple[int, ...]:
        """Return the dimension of each axis of a tensor."""
        return self._of[tensor]

    @cached_property
    def _of(self) -> tuple[tuple[int, ...], ...]:
        graph = self.graph
        first: list[int] = []
        root: list[int] = []
        for tensor in graph.tensors:
            first.append(len(root))
            root += range(len(root), len(root) + len(tensor.shape))

        def find(axis: int) -> int:
            while root[axis] != axis:
                root[axis] = root[root[axis]]
                axis = root[axis]
            return axis

        for op, operator in enumerate(graph.operators):
            for position, output in enumerate(operator.outputs):
                for axis, (tensor, other) in self._links(op, position):
                    root[find(first[output] + axis)] = find(first[tensor] + other)
        return tuple(
            tuple(find(first[number] + axis) for axis in range(len(tensor.shape)))
            for number, tensor in enumerate(graph.tensors)
        )

    def _links(self, op: int, position: int) -> list[tuple[int, tuple[int, int]]]:
        """Return pairs of an axis of a result and (tensor, axis) of an input that depends on it."""
        graph = self.graph
        operator = graph.operators[op]
        shape = graph.tensors[operator.outputs[position]].shape
        everything = needed(graph, op, position, whole(shape))
        links: list[tuple[int, tuple[int, int]]] = []
        for axis, extent in enumerate(shape):
            if extent == 1:
                continue
            half = list(whole(shape))
            half[axis] = (0, extent // 2)
            reads = needed(graph, op, position, tuple(half))
            for tensor, all_of_it, part in zip(operator.inputs, everything, reads, strict=True):
                if graph.tensors[tensor].constant or all_of_it is None or part is None:
                    continue
                links += [
                    (axis, (tensor, other))
                    for other, (a, b) in enumerate(zip(all_of_it, part, strict=True))
                    if a != b
                ]
        return links
