"""The harder arenas fit into their capacity as they were cut, and no less."""

from __future__ import annotations

import numpy as np
import pytest

from benchmarks.memory.hard_arenas import KINDS, HardArena, hard_arena
from benchmarks.memory.minimalloc import placed

ARENAS = [hard_arena(number) for number in range(len(KINDS))]


@pytest.mark.parametrize("arena", ARENAS, ids=lambda arena: arena.name)
def test_one_step_needs_the_whole_capacity_and_none_needs_more(arena: HardArena) -> None:
    lower, upper, size = (np.asarray(c) for c in (arena.lower, arena.upper, arena.size))
    needed = [size[(lower <= step) & (step < upper)].sum() for step in sorted(set(arena.lower))]
    assert max(needed) == arena.capacity
    assert (lower < upper).all()
    assert size.min() > 0


def test_drawing_is_repeatable() -> None:
    assert [hard_arena(number) for number in range(3)] == ARENAS[:3]


def test_the_row_of_an_arena_says_that_it_fits() -> None:
    row = placed(ARENAS[0], 30.0)
    assert row["fits"]
    assert row["arena_bytes"] == row["bound_bytes"] == ARENAS[0].capacity
