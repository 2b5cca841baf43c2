"""Units of a graph in which every instance has operators of its own."""

from __future__ import annotations

import re
from collections.abc import Sequence

from tvm_ios.graph import OpGraph
from tvm_ios.unit_partition import Partition
from tvm_ios.unit_rule import default_rule

#: How the operators of an instance are called, by the instance's number.
INSTANCE_NAME = re.compile(r"instance(\d+)_")

_CONCAT, _SLICE = "concat", "slice"


def instance_rule(graph: OpGraph) -> Sequence[Sequence[int]]:
    """The default rule, but what reads a slice of a piece reads it where the piece lies.

    No unit holds operators of two instances, or of one and the joins of the graph's outputs.
    A slice that only one operator reads goes with this one's unit, which gets an address into
    the piece instead of a copy. One that a concatenation reads stays a unit of its own and is
    written into the result: such are the rows at borders, which are few.

    Parameters
    ----------
    graph
        Of operators.
    """
    partition = Partition(graph)
    for group in default_rule(graph):
        apart: dict[str, list[int]] = {}
        for op in group:
            apart.setdefault(_instance(graph.operators[op].name), []).append(op)
        for members in apart.values():
            partition.join(*members)
    for op, operator in enumerate(graph.operators):
        if operator.kind != _SLICE or not partition.alone(op):
            continue
        reader = partition.reader(op)
        kinds = () if reader is None else [partition.op(m).kind for m in partition.members(reader)]
        if reader is not None and _CONCAT not in kinds and partition.op(reader).kind != _SLICE:
            partition.join(op, reader)
    return partition.groups()


def _instance(name: str) -> str:
    """The prefix of an operator's name that tells its instance; empty if it is in none."""
    found = INSTANCE_NAME.match(name)
    return found[0] if found else ""
