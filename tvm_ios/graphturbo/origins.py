"""Origins of the operators of an unrolled graph, in which every instance has its own, and units."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from tvm_ios.graph.op_graph import OpGraph
from tvm_ios.graph.unit_partition import Partition


class Origin(NamedTuple):
    """The instance and the unit that an operator, or a unit, of an unrolled graph comes from."""

    #: The instance it belongs to; None for operators that join the model's outputs.
    instance: int | None = None
    #: The unit of the original graph that it is a part of; None for operators that cut and join
    #: pieces.
    unit: int | None = None
    #: Whether it cuts the piece that others read off the instance's result.
    for_others: bool = False

    def name(self, number: int, units: OpGraph) -> str:
        """Return a name for the operator of a number; ``units`` is the original graph."""
        if self.instance is None:
            return f"outputs_{number}"
        if self.unit is not None:
            return f"instance{self.instance}/{units.operators[self.unit].name}"
        return f"instance{self.instance}/{'own' if self.for_others else 'read'}_{number}"


def unrolled_units(graph: OpGraph, origins: Sequence[Origin]) -> list[list[int]]:
    """Return the units of an unrolled graph: each instance's, and single cuts and concatenations.

    A slice that only one unit of an instance reads goes with this unit, which then reads it where
    the piece lies. One that a concatenation reads stays a unit of its own and is written into the
    result: such are the rows at borders, which are few.
    """
    partition = Partition(graph)
    first: dict[tuple[int, int], int] = {}
    for op, (instance, unit, _) in enumerate(origins):
        if instance is not None and unit is not None:
            partition.join(first.setdefault((instance, unit), op), op)
    for op, operator in enumerate(graph.operators):
        if operator.kind != "slice" or origins[op].unit is not None or not partition.alone(op):
            continue
        reader = partition.reader(op)
        if reader is None or origins[reader].unit is None:
            continue
        if "concat" not in {partition.op(m).kind for m in partition.members(reader)}:
            partition.join(op, reader)
    return partition.groups()


def origin_of_unit(members: Sequence[Origin]) -> Origin:
    """Return the origin of a unit, by its operators; these may include a slice of its input."""
    return next((member for member in members if member.unit is not None), members[0])
