"""Where the operators of a graph come from in which every instance has its own, and their units."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from tvm_ios.graph.op_graph import OpGraph
from tvm_ios.graph.unit_partition import Partition


class Origin(NamedTuple):
    """Where an operator, or a unit, of an unrolled graph comes from.

    Attributes
    ----------
    instance
        Which it belongs to; None for what joins the model's outputs.
    unit
        The unit of the original graph that it is a part of; None for what cuts and joins pieces.
    for_others
        Whether it cuts what others read off what the instance has made.
    """

    instance: int | None = None
    unit: int | None = None
    for_others: bool = False

    def name(self, number: int, units: OpGraph) -> str:
        """What people read of the operator of a number; ``units`` is the original graph."""
        if self.instance is None:
            return f"outputs_{number}"
        if self.unit is not None:
            return f"instance{self.instance}/{units.operators[self.unit].name}"
        return f"instance{self.instance}/{'own' if self.for_others else 'read'}_{number}"


def unrolled_units(graph: OpGraph, origins: Sequence[Origin]) -> list[list[int]]:
    """The units of an unrolled graph: those of each instance, and single cuts and concatenations.

    A slice that only one unit of an instance reads goes with this unit, which then reads it where
    the piece lies. One that a concatenation reads stays a unit of its own and is written into the
    result: such are the rows at borders, which are few.

    Parameters
    ----------
    graph, origins
        The graph of operators, and where each of them comes from.
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
    """Where a unit comes from, by its operators: it may hold a slice of what it reads."""
    return next((member for member in members if member.unit is not None), members[0])
