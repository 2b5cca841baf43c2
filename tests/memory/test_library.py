"""The library: orders of any nodes, and places of buffers in banks, against brute force."""

from __future__ import annotations

from itertools import permutations, product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.fast_run import examples
from tests.refusals import refused
from tvm_ios.errors import MemoryBudgetError
from tvm_ios.graph.elements import GraphError
from tvm_ios.memory import Bank, Buffer, Node, Plan, TensorGraph, order, plan
from tvm_ios.memory.footprint import OrderError
from tvm_ios.memory.planning import BufferError

BUFFERS = st.lists(
    st.builds(
        lambda begin, steps, size, traffic: Buffer("", begin, begin + steps, size, traffic=traffic),
        st.integers(-2, 4),
        st.integers(1, 4),
        st.integers(0, 5),
        st.none() | st.integers(0, 9),
    ),
    max_size=5,
)


def conflict(one: Buffer, other: Buffer) -> bool:
    return one.lower < other.upper and other.lower < one.upper and one.size * other.size > 0


def check(buffers: list[Buffer], placed: Plan, alignment: int = 1) -> None:
    for n, one in enumerate(buffers):
        bank = placed.banks[placed.bank_of[n]]
        assert one.bank in (None, bank.bank.name)
        assert placed.offsets[n] % alignment == 0
        assert 0 <= placed.offsets[n] <= bank.nbytes - one.size
        assert bank.bound <= bank.nbytes <= (bank.bank.capacity or bank.nbytes)
        for m, other in enumerate(buffers[:n]):
            if placed.bank_of[n] == placed.bank_of[m] and conflict(one, other):
                below = placed.offsets[n] + one.size <= placed.offsets[m]
                assert below or placed.offsets[m] + other.size <= placed.offsets[n]


def least_arena(buffers: list[Buffer]) -> int:
    """The smallest arena: in some order, in which each buffer takes the lowest place, it is."""
    least = sum(buffer.size for buffer in buffers)
    for turn in permutations(buffers):
        begins = list[int]()
        for n, buffer in enumerate(turn):
            near = [m for m in range(n) if conflict(buffer, turn[m])]
            begins.append(
                min(
                    begin
                    for begin in [0, *(begins[m] + turn[m].size for m in near)]
                    if all(
                        begin + buffer.size <= begins[m] or begins[m] + turn[m].size <= begin
                        for m in near
                    )
                )
            )
        least = min(least, max((b + t.size for b, t in zip(begins, turn, strict=True)), default=0))
    return least


@examples(60)
@given(BUFFERS, st.sampled_from([1, 4]))
def test_one_bank_without_a_capacity_is_as_small_as_it_can_be(
    buffers: list[Buffer], alignment: int
) -> None:
    placed = plan(buffers, alignment=alignment)
    check(buffers, placed, alignment)
    (bank,) = placed.banks
    assert bank.proven
    if alignment == 1:
        assert bank.nbytes == least_arena(buffers)


@examples(60)
@given(BUFFERS, st.integers(1, 12), st.booleans())
def test_the_banks_chosen_make_accesses_take_the_least_time(
    buffers: list[Buffer], capacity: int, pinned: bool
) -> None:
    if pinned and buffers:
        buffers[0] = Buffer("first", buffers[0].lower, buffers[0].upper, buffers[0].size, "sram")
    banks = (Bank("sram", capacity, 1.0), Bank("dram", cost=8.0))
    possible = list[float]()
    for choice in product((0, 1), repeat=len(buffers)):
        fast = [b for b, bank in zip(buffers, choice, strict=True) if bank == 0]
        if least_arena(fast) <= capacity and not (pinned and buffers and choice[0]):
            possible.append(
                sum(
                    (2 * b.size if b.traffic is None else b.traffic) * banks[bank].cost
                    for b, bank in zip(buffers, choice, strict=True)
                )
            )
    if not possible:
        with refused(MemoryBudgetError, "bytes"):
            plan(buffers, banks)
        return
    placed = plan(buffers, banks)
    check(buffers, placed)
    assert placed.bound <= min(possible) <= placed.cost
    if placed.cost == placed.bound:
        assert placed.cost == min(possible)


def test_a_capacity_that_is_too_small_is_refused_with_the_proof() -> None:
    buffers = [Buffer("a", 0, 2, 3), Buffer("b", 1, 3, 3), Buffer("c", 0, 1, 2)]
    check(buffers, plan(buffers, [Bank("sram", 6)]))
    with refused(MemoryBudgetError, "'sram'", "no placement needs less than 6"):
        plan(buffers, [Bank("sram", 5)])
    with refused(MemoryBudgetError, "sram of 3 bytes, dram of 2 bytes"):
        plan(buffers, [Bank("sram", 3), Bank("dram", 2)])


@pytest.mark.parametrize(
    ("buffers", "banks", "words"),
    [
        ([Buffer("b", 2, 2, 1)], [Bank()], "at least one step"),
        ([Buffer("b", 0, 1, -1)], [Bank()], "not negative"),
        ([Buffer("b", 0, 1, 1, "srm")], [Bank("sram")], "did you mean 'sram'"),
        ([], [], "has to be a bank"),
        ([], [Bank("a"), Bank("a")], "a name of its own"),
        ([], [Bank(capacity=0)], "no capacity"),
    ],
)
def test_senseless_buffers_are_refused(
    buffers: list[Buffer], banks: list[Bank], words: str
) -> None:
    with refused(BufferError, words):
        plan(buffers, banks)
    with refused(BufferError, "multiples of 0"):
        plan([], alignment=0)


NODES = (
    Node("late", ("a", "b"), ("c",)),
    Node("wide", ("x",), ("a",), scratch=10),
    Node("narrow", ("x",), ("b",), over=("x",)),
    Node("end", ("c", "weight"), ("y",), over=("c",)),
)
SIZES = {"x": 4, "a": 40, "b": 4, "c": 4, "y": 4}


def test_nodes_in_any_order_are_ordered() -> None:
    graph = TensorGraph(NODES, SIZES, ["y"])
    found = order(graph)
    # x, a and scratch; then b lies in x, and y in c.
    assert (found.order, found.peak, found.proven) == ((1, 2, 0, 3), 54, True)
    assert graph.peak(found.order) == 54
    assert graph.lifetimes(found.order) == (
        Buffer("x", 0, 3, 4, traffic=16),
        Buffer("a", 0, 3, 40, traffic=80),
        Buffer("c", 2, 4, 4, traffic=12),
        Buffer("wide.scratch", 0, 1, 10, traffic=20),
    )
    assert plan(graph.lifetimes(found.order)).banks[0].nbytes == 54


def test_views_lie_in_other_tensors() -> None:
    nodes = (
        Node("left", ("x",), ("a",)),
        Node("right", ("x",), ("b",)),
        Node("concat", ("a", "b"), ("c",)),
        Node("view", ("c",), ("v",)),
        Node("end", ("v",), ("y",)),
    )
    sizes = {"x": 2, "a": 3, "b": 3, "c": 6, "y": 1}
    views = {"a": "c", "b": "c", "v": "c"}
    graph = TensorGraph(nodes, sizes, ["y"], views)
    assert graph.lifetimes(range(5)) == (
        Buffer("x", 0, 2, 2, traffic=4),
        Buffer("c", 0, 5, 6, traffic=24),
        Buffer("y", 4, 5, 1, traffic=1),
    )
    assert order(graph).peak == 8
    assert order(TensorGraph(nodes, {**sizes, "v": 6}, ["y"])).peak == 12


def test_what_is_no_graph_is_refused() -> None:
    with refused(GraphError, "'wide'", "'again'", "'a'"):
        TensorGraph([*NODES, Node("again", (), ("a",))], SIZES, ["y"])
    with refused(GraphError, "'one'", "waits"):
        TensorGraph([Node("one", ("b",), ("a",)), Node("two", ("a",), ("b",))], {}, [])
    with refused(GraphError, "'z'"):
        TensorGraph(NODES, SIZES, ["z"])
    with refused(GraphError, "lies in itself"):
        TensorGraph(NODES, SIZES, ["y"], {"a": "b", "b": "a"}).peak((1, 2, 0, 3))
    for missing in ((1, 2, 0), (1, 2, 0, 7)):
        with refused(OrderError, "4 operators"):
            TensorGraph(NODES, SIZES, ["y"]).peak(missing)
    with refused(OrderError, "late", "stands before", "wide"):
        TensorGraph(NODES, SIZES, ["y"]).peak((0, 1, 2, 3))
