"""The connected components of a graph."""

from __future__ import annotations

from tvm_ios.graph.op_graph import OpGraph


def components(graph: OpGraph) -> tuple[int, ...]:
    """Return the connected components of a graph, as bit sets of operators.

    Inputs and constants that several read do not connect them. The component of the first operator
    comes first.
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
