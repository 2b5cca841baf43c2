"""The parts of a graph that have nothing to do with each other."""

from __future__ import annotations

from tvm_ios.graph.op_graph import OpGraph


def components(graph: OpGraph) -> tuple[int, ...]:
    """Bit sets of operators, none of which reads what one of another set makes.

    Inputs and constants that several read do not connect them. The set of the first operator comes
    first.
    """
    found: list[int] = []
    for number in range(len(graph)):
        near = graph.predecessors[number]
        touching = [mask for mask in found if mask & near]
        if not touching:
            found.append(1 << number)
            continue
        first = found.index(touching[0])
        for mask in touching[1:]:
            found.remove(mask)
            found[first] |= mask
        found[first] |= 1 << number
    return tuple(found)
