"""The search of offsets against brute force, and on the hard arenas of MiniMalloc's authors."""

from __future__ import annotations

import csv
import os
import signal
import threading
from itertools import permutations
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.fast_run import examples
from tvm_ios.files.array_files import Array
from tvm_ios.program.arena.solver import cliques
from tvm_ios.solvers.placing import Placed, Placing, PlacingSearch

MIB = 1 << 20
#: The challenging ones of MiniMalloc (Moffitt, ASPLOS 2023), under its own licence.
ARENAS = Path(__file__).parents[1] / "golden" / "minimalloc"
#: Buffers as (size, those of the earlier ones that it conflicts with).
GRAPHS = st.lists(st.tuples(st.integers(1, 5), st.integers(0, 63)), min_size=1, max_size=6)


def placing_of(sizes: list[int], pairs: set[tuple[int, int]]) -> Placing:
    count = len(sizes)
    near = [[b for b in range(count) if (a, b) in pairs or (b, a) in pairs] for a in range(count)]
    conflicts = [np.array(each, np.int64) for each in near]
    return Placing(np.array(sizes), np.ones(count, np.int64), conflicts, list(cliques(conflicts)))


def smallest(placing: Placing) -> int:
    """The smallest capacity: some order, in which each buffer takes the lowest place, has it."""
    count, least = len(placing.sizes), int(placing.sizes.sum())
    for order in permutations(range(count)):
        offsets = np.full(count, -1)
        for buffer in order:
            near = [b for b in placing.conflicts[buffer] if offsets[b] >= 0]
            tops = [0, *(offsets[b] + placing.sizes[b] for b in near)]
            size = placing.sizes[buffer]
            offsets[buffer] = min(
                top
                for top in tops
                if all(
                    top + size <= offsets[b] or offsets[b] + placing.sizes[b] <= top for b in near
                )
            )
        least = min(least, int((offsets + placing.sizes).max()))
    return least


def check(placing: Placing, offsets: Array, capacity: int) -> None:
    assert offsets.min() >= 0
    assert (offsets + placing.sizes).max() <= capacity
    for one, near in enumerate(placing.conflicts):
        for other in near:
            below = offsets[one] + placing.sizes[one] <= offsets[other]
            assert below or offsets[other] + placing.sizes[other] <= offsets[one]


@examples(150)
@given(GRAPHS)
def test_offsets_are_found_where_there_are_some_and_nowhere_else(
    graph: list[tuple[int, int]],
) -> None:
    pairs = {(a, b) for a, (_, mask) in enumerate(graph) for b in range(a) if mask >> b & 1}
    placing = placing_of([size for size, _ in graph], pairs)
    least = smallest(placing)
    for capacity in range(1, least + 2):
        placed = PlacingSearch(placing).within(capacity, 100_000)
        assert placed.none == (capacity < least)
        assert (placed.offsets is None) == placed.none
        if placed.offsets is not None:
            check(placing, placed.offsets, capacity)


def hard(name: str) -> Placing:
    with (ARENAS / f"{name}.{MIB}.csv").open() as file:
        rows = list(csv.DictReader(file))
    begins, ends, sizes = (
        np.array([int(row[column]) for row in rows]) for column in ("lower", "upper", "size")
    )
    beside = (begins[:, None] < ends[None, :]) & (begins[None, :] < ends[:, None])
    np.fill_diagonal(beside, False)
    near = [np.flatnonzero(row) for row in beside]
    return Placing(sizes, ends - begins, near, list(cliques(near)))


@pytest.mark.parametrize("name", [*"ABCDEFGHJK"])
def test_hard_arenas_fit(name: str) -> None:
    placing = hard(name)
    offsets = PlacingSearch(placing).within(MIB, 1_000_000).offsets
    assert offsets is not None
    check(placing, offsets, MIB)


@pytest.mark.slow
def test_the_hardest_arena_fits() -> None:
    placing = hard("I")
    offsets = PlacingSearch(placing).within(MIB, 10_000_000).offsets
    assert offsets is not None
    check(placing, offsets, MIB)


def test_limits_end_the_search() -> None:
    placing = hard("I")
    assert PlacingSearch(placing).within(MIB, 10_000) == Placed(None, False, 10_000)
    hurried = PlacingSearch(placing).within(MIB, 10**12, seconds=0.01)
    assert (hurried.offsets, hurried.none) == (None, False)


@pytest.mark.usefixtures("hearing")
def test_an_interrupt_ends_the_search() -> None:
    placing = hard("I")
    later = threading.Timer(0.3, os.kill, (os.getpid(), signal.SIGINT))
    later.start()
    with pytest.raises(KeyboardInterrupt):
        PlacingSearch(placing).within(MIB, 10**12)
    later.join()
