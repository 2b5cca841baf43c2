"""The state with the fewest live bytes between two states, as a minimum cut."""

from __future__ import annotations

from typing import Any

from tvm_ios.graph.op_graph import bits
from tvm_ios.memory.buffers import TensorBuffer
from tvm_ios.memory.fused_graph import FusedGraph

_SOURCE, _SINK = 0, 1


def fewest_live(graph: FusedGraph, low: int, high: int, *, largest: bool) -> int:
    """Return the state with the fewest live bytes between ``low`` and ``high``, as a bit set.

    Of several it is the one that contains all others (``largest``), or that all contain.
    """
    if (high & ~low).bit_count() < 2:
        ends = (high, low) if largest else (low, high)
        return min(ends, key=graph.live)
    return LiveCuts(graph, low, high).fewest(largest=largest)


class LiveCuts:
    """The states between ``low`` and ``high`` as cuts of one flow network.

    Its capacities are bytes, and the capacity of a cut is the state's live bytes. The footprint is
    submodular: executed nodes are on the side of the source, and a buffer is cut if a writer is on
    that side and a user on the other.
    """

    def __init__(self, graph: FusedGraph, low: int, high: int) -> None:
        # Here, so that what only names schedulers (a bundle's runner, say) needs no solver.
        from ortools.graph.python import max_flow  # pyright: ignore[reportMissingTypeStubs]

        self._flow: Any = max_flow.SimpleMaxFlow()
        self._low, between = low, high & ~low
        self._place = place = {node: 2 + i for i, node in enumerate(bits(between))}
        self._fresh = 2 + len(place)
        numbers = {b for node in place for b in graph.touched[node]}
        self._infinite = 1 + sum(graph.buffers[b].nbytes for b in numbers)
        for number in sorted(numbers):
            buffer = graph.buffers[number]
            ends = _ends(buffer, low, high, place)
            if ends is not None:
                writers, users = ends
                tail = self._gather(writers, into=True)
                self._arc(tail, self._gather(users, into=False), buffer.nbytes)
        for node in place:
            for before in bits(graph.predecessors[node] & between):
                self.require(before, node)
        #: By node and end, arcs that put a node on a side; their capacity is 0 or infinite.
        self._forcing: dict[tuple[int, int], int] = {}

    def require(self, before: int, node: int) -> None:
        """Allow only states that contain ``before`` if they contain ``node``."""
        self._arc(self._place[node], self._place[before], self._infinite)

    def fewest(self, inside: int = 0, outside: int = 0, *, largest: bool) -> int:
        """Return the state with the fewest live bytes that has ``inside`` and lacks ``outside``.

        Of several it is the one that contains all others (``largest``), or that all contain.
        """
        forcing = [self._forced(node, _SOURCE) for node in bits(inside & ~self._low)]
        forcing += [self._forced(node, _SINK) for node in bits(outside)]
        flow = self._flow
        for arc in forcing:
            flow.set_arc_capacity(arc, self._infinite)
        flow.solve(_SOURCE, _SINK)
        side = set(flow.get_sink_side_min_cut() if largest else flow.get_source_side_min_cut())
        for arc in forcing:
            flow.set_arc_capacity(arc, 0)
        state = self._low
        for node, vertex in self._place.items():
            if (vertex in side) != largest:
                state |= 1 << node
        return state

    def _arc(self, tail: int, head: int, capacity: int) -> int:
        return self._flow.add_arc_with_capacity(tail, head, capacity)

    def _gather(self, vertices: list[int], *, into: bool) -> int:
        """Return a hub vertex that stands for several vertices, of which any one suffices."""
        if len(vertices) == 1:
            return vertices[0]
        hub = self._fresh
        self._fresh += 1
        for vertex in vertices:
            tail, head = (vertex, hub) if into else (hub, vertex)
            self._arc(tail, head, self._infinite)
        return hub

    def _forced(self, node: int, end: int) -> int:
        key = (node, end)
        if key not in self._forcing:
            place = self._place[node]
            tail, head = (end, place) if end == _SOURCE else (place, end)
            self._forcing[key] = self._arc(tail, head, 0)
        return self._forcing[key]


def _ends(
    buffer: TensorBuffer, low: int, high: int, place: dict[int, int]
) -> tuple[list[int], list[int]] | None:
    """Return the vertices that make a buffer live and those that keep it so; None if none do."""
    begun = buffer.at_start or buffer.writers & low
    stays = buffer.at_end or buffer.users & ~high
    between = high & ~low
    writers = [_SOURCE] if begun else [place[node] for node in bits(buffer.writers & between)]
    users = [_SINK] if stays else [place[node] for node in bits(buffer.users & between)]
    return (writers, users) if writers and users else None
