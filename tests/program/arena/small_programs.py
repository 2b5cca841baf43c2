"""Random programs of a few buffers, and by enumeration what the planner has to find."""

from __future__ import annotations

import itertools

import networkx as nx
from hypothesis import strategies as st

from tvm_ios.program.memory_plan import planned_buffers
from tvm_ios.program.program import ALIGNMENT, Buffer, BufferType, Launch, Part, Program, Role, Wait


def rounded(program: Program, buffer: int) -> int:
    return -(-program.buffers[buffer].type.nbytes // ALIGNMENT) * ALIGNMENT


@st.composite
def programs(draw: st.DrawFn, most_buffers: int = 6) -> Program:
    """Launches on one to four lanes that use any buffers, with any waits that can be met.

    Nothing is said of reads and writes: sharing of bytes does not depend on them.
    """
    buffers = [
        Buffer("in", BufferType((8,)), Role.INPUT),
        Buffer("out", BufferType((8,)), Role.OUTPUT),
    ]
    for number in range(draw(st.integers(1, most_buffers))):
        kind = BufferType((draw(st.sampled_from([1, 2, 8, 30, 48, 80])), 2))
        role = draw(st.sampled_from([Role.INTERMEDIATE, Role.SCRATCH]))
        buffers.append(Buffer(f"b{number}", kind, role))
        for place in range(draw(st.sampled_from([0, 0, 0, 1, 2]))):
            begin, end = draw(st.sampled_from([(0, 1), (1, 2), (0, 2)]))
            whole = next(n for n, b in enumerate(buffers) if b.name == f"b{number}")
            part = Part(whole, 1, begin, end)
            buffers.append(Buffer(f"b{number} part {place}", kind, Role.INTERMEDIATE, part))
    lanes: list[list[Launch | Wait]] = [[] for _ in range(draw(st.integers(1, 4)))]
    launches = [0] * len(lanes)
    for _ in range(draw(st.integers(1, 12))):
        lane = draw(st.integers(0, len(lanes) - 1))
        for other in range(len(lanes)):
            if other != lane and launches[other] and draw(st.booleans()):
                lanes[lane].append(Wait(other, draw(st.integers(1, launches[other]))))
        used = draw(st.lists(st.integers(0, len(buffers) - 1), min_size=1, max_size=3, unique=True))
        lanes[lane].append(Launch(0, tuple(used), 0, 1, 0))
        launches[lane] += 1
    return Program(tuple(map(tuple, lanes)), ("k",), tuple(buffers), ("u",))


def ordered_pairs(program: Program) -> set[tuple[int, int]]:
    """All pairs of planned buffers of which the first is dead before the second."""
    edges = nx.DiGraph()
    for lane, items in enumerate(program.lanes):
        waits: list[tuple[int, int]] = []
        place = 0
        for item in items:
            if isinstance(item, Wait):
                waits.append((item.lane, item.launches))
                continue
            place += 1
            edges.add_node((lane, place))
            edges.add_edges_from((earlier, (lane, place)) for earlier in waits)
            if place > 1:
                edges.add_edge((lane, place - 1), (lane, place))
    before = set(nx.transitive_closure_dag(edges).edges)
    uses: dict[int, list[tuple[int, int]]] = {b: [] for b in planned_buffers(program)}
    for lane, items in enumerate(program.lanes):
        for place, launch in enumerate((i for i in items if isinstance(i, Launch)), 1):
            for number in launch.buffers:
                part = program.buffers[number].part
                whole = number if part is None else part.of
                if whole in uses:
                    uses[whole].append((lane, place))
    return {
        (a, b)
        for a, b in itertools.permutations(uses, 2)
        if all((x, y) in before for x in uses[a] for y in uses[b])
    }


def conflicting(program: Program) -> set[frozenset[int]]:
    """All pairs of planned buffers that may not share a byte."""
    ordered = ordered_pairs(program)
    pairs = itertools.combinations(planned_buffers(program), 2)
    return {frozenset((a, b)) for a, b in pairs if not {(a, b), (b, a)} & ordered}


def heaviest(program: Program) -> int:
    """Bytes of the heaviest set of buffers that are in conflict with each other."""
    pairs, buffers = conflicting(program), planned_buffers(program)
    return max(
        sum(rounded(program, b) for b in chosen)
        for count in range(len(buffers) + 1)
        for chosen in itertools.combinations(buffers, count)
        if all(frozenset(pair) in pairs for pair in itertools.combinations(chosen, 2))
    )


def smallest_arena(program: Program) -> int:
    """Bytes of the smallest arena: any plan, pressed down, is one of these stacks."""
    pairs = conflicting(program)

    def height(order: tuple[int, ...]) -> int:
        ends: dict[int, int] = {}
        for buffer in order:
            below = (end for other, end in ends.items() if frozenset((other, buffer)) in pairs)
            ends[buffer] = max(below, default=0) + rounded(program, buffer)
        return max(ends.values())

    return min(map(height, itertools.permutations(planned_buffers(program))))
