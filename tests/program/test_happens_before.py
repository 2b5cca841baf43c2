import itertools
from dataclasses import dataclass

import networkx as nx
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.random_units import VECTOR
from tests.refusals import refused
from tvm_ios.program.happens_before import RaceError, check_races, ordered_launches
from tvm_ios.program.program import Buffer, KernelUse, Launch, Program, Role, Wait


@dataclass(frozen=True)
class Step:
    lane: int
    buffer: int
    writes: bool


BUFFERS = 3
READ, WRITE = KernelUse(4, 1, ()), KernelUse(4, 1, (0,))
steps = st.lists(
    st.builds(Step, st.integers(0, 2), st.integers(0, BUFFERS - 1), st.booleans()),
    min_size=1,
    max_size=8,
)


def build(sequence: list[Step], waits: set[tuple[int, int]]) -> Program:
    """Launches in this order, each on its lane; a wait is (earlier step, later step).

    Before all of them lane 0 writes every buffer, so that reading before any step is no fault.
    """
    first = [Launch(1, (buffer,), 0, 1, len(sequence)) for buffer in range(BUFFERS)]
    lanes: list[list[Launch | Wait]] = [[*first], [Wait(0, BUFFERS)], [Wait(0, BUFFERS)]]
    finished: list[int] = []
    for number, step in enumerate(sequence):
        for earlier in range(number):
            if (earlier, number) in waits:
                lanes[step.lane].append(Wait(sequence[earlier].lane, finished[earlier]))
        lanes[step.lane].append(Launch(int(step.writes), (step.buffer,), 0, 1, number))
        before = 0 if step.lane else BUFFERS
        finished.append(before + sum(s.lane == step.lane for s in sequence[: number + 1]))
    return Program(
        tuple(map(tuple, lanes)),
        ("read", "write"),
        tuple(Buffer(f"b{i}", VECTOR, Role.OUTPUT) for i in range(BUFFERS)),
        (*(f"step {i}" for i in range(len(sequence))), "first"),
        (READ, WRITE),
    )


def order(sequence: list[Step], waits: set[tuple[int, int]]) -> set[tuple[int, int]]:
    """All pairs in happens-before order, by the closure of the lanes' order and the waits."""
    edges = nx.DiGraph()
    edges.add_nodes_from(range(len(sequence)))
    edges.add_edges_from(waits)
    for a, b in itertools.combinations(range(len(sequence)), 2):
        if sequence[a].lane == sequence[b].lane:
            edges.add_edge(a, b)
    return set(nx.transitive_closure_dag(edges).edges)


@given(steps, st.data())
def test_verdict_equals_brute_force(sequence: list[Step], data: st.DataObject) -> None:
    pairs = list(itertools.combinations(range(len(sequence)), 2))
    waits = data.draw(st.sets(st.sampled_from(pairs))) if pairs else set()
    ordered = order(sequence, waits)
    racing = [
        (a, b)
        for a, b in pairs
        if sequence[a].buffer == sequence[b].buffer
        and (sequence[a].writes or sequence[b].writes)
        and (a, b) not in ordered
    ]
    program = build(sequence, waits)
    if racing:
        with pytest.raises(RaceError) as caught:
            check_races(program)
        assert any(
            f"'step {a}'" in str(caught.value) and f"'step {b}'" in str(caught.value)
            for a, b in racing
        )
    else:
        check_races(program)


@given(steps, st.data())
def test_known_counts_equal_brute_force(sequence: list[Step], data: st.DataObject) -> None:
    pairs = list(itertools.combinations(range(len(sequence)), 2))
    waits = data.draw(st.sets(st.sampled_from(pairs))) if pairs else set()
    ordered = order(sequence, waits)
    seen = 0
    for _, _, counts, launch in ordered_launches(build(sequence, waits)):
        if launch.unit == len(sequence):
            continue
        before = [BUFFERS, 0, 0]
        for a, b in ordered:
            if b == launch.unit:
                before[sequence[a].lane] += 1
        assert counts == tuple(before)
        seen += 1
    assert seen == len(sequence)


def test_tiles_of_one_kernel_are_independent_and_overlap_is_not() -> None:
    buffers = (Buffer("x", VECTOR, Role.OUTPUT),)

    def two(begin: int) -> Program:
        lanes = ((Launch(0, (0,), 0, 2, 0),), (Launch(0, (0,), begin, 4, 0),))
        return Program(lanes, ("write",), buffers, ("u",), (WRITE,))

    check_races(two(2))
    with refused(RaceError, "'u'", "'x'"):
        check_races(two(1))


def test_reading_what_nothing_wrote_is_found() -> None:
    buffers = (Buffer("x", VECTOR, Role.INTERMEDIATE),)
    program = Program(((Launch(0, (0,), 0, 1, 0),),), ("read",), buffers, ("u",), (READ,))
    with refused(RaceError, "'u'", "'x'", "written before"):
        check_races(program)
