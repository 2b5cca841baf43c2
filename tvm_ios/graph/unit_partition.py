"""The partition of operators into units while it is being formed."""

from __future__ import annotations

from bisect import insort
from collections.abc import Sequence
from graphlib import CycleError, TopologicalSorter

from tvm_ios.graph.elements import Operator
from tvm_ios.graph.op_graph import OpGraph


class Partition:
    """The operators of a graph and the units that they have been joined into so far."""

    def __init__(self, graph: OpGraph) -> None:
        self.graph = graph
        self._members = [[op] for op in range(len(graph))]

    def op(self, number: int) -> Operator:
        """Return an operator by its number."""
        return self.graph.operators[number]

    def members(self, op: int) -> list[int]:
        """Return the operators of an operator's unit, ascending."""
        return self._members[op]

    def join(self, *ops: int) -> None:
        """Merge the units of these operators into one."""
        units = {id(unit): unit for unit in (self._members[op] for op in ops)}
        # The largest takes the others in: a chain of joins takes no longer than its operators.
        joined, *others = sorted(units.values(), key=len, reverse=True)
        for member in (member for unit in others for member in unit):
            insort(joined, member)
            self._members[member] = joined

    def alone(self, op: int) -> bool:
        """Return whether an operator is a unit of its own so far."""
        return len(self._members[op]) == 1

    def groups(self) -> list[list[int]]:
        """Return all units, by their first operators."""
        return [unit for op, unit in enumerate(self._members) if unit[0] == op]

    def reader(self, op: int, kinds: frozenset[str] | None = None) -> int | None:
        """Return the only reader of an operator's only result, if its kind is in ``kinds``."""
        if len(self.op(op).outputs) != 1:
            return None
        (result,) = self.op(op).outputs
        readers = self.graph.consumers[result]
        if len(readers) != 1 or result in self.graph.outputs:
            return None
        return readers[0] if kinds is None or self.op(readers[0]).kind in kinds else None

    def maker(self, op: int, kinds: frozenset[str]) -> int | None:
        """Return the producer of an operator's first input, if unshared and of these kinds."""
        maker = self.graph.producer[self.op(op).inputs[0]]
        if maker is None or self.op(maker).kind not in kinds or self.reader(maker) != op:
            return None
        return maker

    def sources(self, op: int) -> list[int | None]:
        """Return the producers of an operator's non-constant inputs; None is a graph input."""
        tensors = dict.fromkeys(self.op(op).inputs)
        return [
            self.graph.producer[tensor]
            for tensor in tensors
            if not self.graph.tensors[tensor].constant
        ]

    def is_sum(self, op: int) -> bool:
        """Return whether an operator adds two values that are no constants."""
        return self.op(op).kind == "add" and len(self.sources(op)) == 2

    def join_sums(self, op: int, reader: int) -> None:
        """Join a sum, and the sums that only it reads, to their only reader."""
        self.join(op, reader)
        for source in self.sources(op):
            if source is not None and self.is_sum(source) and self.reader(source) == op:
                self.join_sums(source, op)


def is_acyclic(graph: OpGraph, groups: Sequence[Sequence[int]]) -> bool:
    """Return whether no group depends on itself through others."""
    owner = {op: number for number, group in enumerate(groups) for op in group}
    sources = {
        number: {
            owner[maker]
            for op in group
            for tensor in graph.operators[op].inputs
            if (maker := graph.producer[tensor]) is not None
        }
        - {number}
        for number, group in enumerate(groups)
    }
    try:
        TopologicalSorter(sources).prepare()
    except CycleError:
        return False
    return True
