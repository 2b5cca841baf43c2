"""Names in a graph in which every instance has operators of its own, and units of these."""

from __future__ import annotations

import re
from typing import NamedTuple

from tvm_ios.graph.op_graph import OpGraph
from tvm_ios.graph.unit_partition import Partition

_NAME = re.compile(r"instance(\d+)_(?:unit(\d+)_|(own))?")


class Origin(NamedTuple):
    """Where an operator, or a unit, of an unrolled graph comes from.

    Attributes
    ----------
    instance
        Which it belongs to; None for what joins the model's outputs.
    unit
        Of which unit of the original graph it is a part; None for what cuts and joins pieces.
    kept
        Whether it cuts what others read off what the instance has made.
    """

    instance: int | None
    unit: int | None
    kept: bool


def name_prefix(instance: int, unit: int) -> str:
    """What the names of the operators begin with that an instance has of a unit."""
    return f"instance{instance}_unit{unit}_"


def read_name(instance: int) -> str:
    """What cuts and joins pieces that an instance reads is called."""
    return f"instance{instance}_read"


def kept_name(instance: int) -> str:
    """What cuts pieces off what an instance has made is called."""
    return f"instance{instance}_own"


def origin(name: str) -> Origin:
    """The origin of an operator by its name."""
    match = _NAME.match(name)
    if match is None:
        return Origin(None, None, False)
    unit = None if match[2] is None else int(match[2])
    return Origin(int(match[1]), unit, match[3] is not None)


def unrolled_units(graph: OpGraph) -> list[list[int]]:
    """The unit rule of an unrolled graph: a unit of an instance, or one cut or concatenation.

    A slice that only one unit of an instance reads goes with this unit, which then reads it where
    the piece lies. One that a concatenation reads stays a unit of its own and is written into the
    result: such are the rows at borders, which are few.
    """
    partition = Partition(graph)
    first: dict[tuple[int, int], int] = {}
    origins = [origin(operator.name) for operator in graph.operators]
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
