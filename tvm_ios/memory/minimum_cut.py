"""The state with the fewest live bytes between two states, as a minimum cut."""

from __future__ import annotations

from collections.abc import Callable

from ortools.graph.python.max_flow import SimpleMaxFlow

from tvm_ios.graph import bits
from tvm_ios.memory.buffers import Buffer
from tvm_ios.memory.fused_graph import FusedGraph

_SOURCE, _SINK = 0, 1


def fewest_live(graph: FusedGraph, low: int, high: int, *, largest: bool) -> int:
    """Find the state with the smallest transient footprint of those between two.

    The footprint is submodular, and a cut: executed nodes are on the side of the source. A buffer
    is cut if a writer is on that side and a user on the other.

    Parameters
    ----------
    graph
        Of nodes.
    low, high
        Bit sets of executed nodes, one within the other.
    largest
        Which of several smallest to return: the one that holds all others, or that all hold.
    """
    between = high & ~low
    place = {node: 2 + i for i, node in enumerate(bits(between))}
    if len(place) < 2:
        ends = (high, low) if largest else (low, high)
        return min(ends, key=graph.live)
    flow = SimpleMaxFlow()
    numbers = {b for node in place for b in graph.touched[node]}
    infinite = 1 + sum(graph.buffers[b].nbytes for b in numbers)
    fresh = 2 + len(place)

    def gather(nodes: list[int], connect: Callable[[int, int], None]) -> int:
        """One vertex that stands for nodes, of which any is enough."""
        nonlocal fresh
        if len(nodes) == 1:
            return nodes[0]
        fresh += 1
        for node in nodes:
            connect(node, fresh - 1)
        return fresh - 1

    def arc(tail: int, head: int, capacity: int) -> None:
        flow.add_arc_with_capacity(tail, head, capacity)

    for number in sorted(numbers):
        ends = _ends(graph.buffers[number], low, high, place)
        if ends is not None:
            writers, users = ends
            tail = gather(writers, lambda node, hub: arc(node, hub, infinite))
            head = gather(users, lambda node, hub: arc(hub, node, infinite))
            arc(tail, head, graph.buffers[number].nbytes)
    for node, vertex in place.items():
        for before in bits(graph.predecessors[node] & between):
            arc(vertex, place[before], infinite)
    flow.solve(_SOURCE, _SINK)
    if largest:
        beyond = set(flow.get_sink_side_min_cut())
        chosen = (node for node, vertex in place.items() if vertex not in beyond)
    else:
        inside = set(flow.get_source_side_min_cut())
        chosen = (node for node, vertex in place.items() if vertex in inside)
    state = low
    for node in chosen:
        state |= 1 << node
    return state


def _ends(
    buffer: Buffer, low: int, high: int, place: dict[int, int]
) -> tuple[list[int], list[int]] | None:
    """Vertices of which one makes a buffer live and one keeps it so; None if none does."""
    begun = buffer.at_start or buffer.writers & low
    stays = buffer.at_end or buffer.users & ~high
    between = high & ~low
    writers = [_SOURCE] if begun else [place[node] for node in bits(buffer.writers & between)]
    users = [_SINK] if stays else [place[node] for node in bits(buffer.users & between)]
    if writers == [_SOURCE] and users == [_SINK]:
        return None
    return (writers, users) if writers and users else None
