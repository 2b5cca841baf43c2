"""Lifetimes and the lower bound, against enumeration."""

from __future__ import annotations

import itertools

import numpy as np
from hypothesis import given

from tests.program.arena.small_programs import conflicting, heaviest, programs
from tvm_ios.program.arena.bound import heaviest_antichain, sweep
from tvm_ios.program.arena.lifetimes import lifetimes
from tvm_ios.program.program import Buffer, BufferType, Launch, Program, Role, Wait


@given(programs())
def test_conflicts_equal_brute_force(program: Program) -> None:
    times = lifetimes(program)
    pairs = {
        frozenset((int(times.buffers[one]), int(times.buffers[other])))
        for one, others in enumerate(times.conflicts())
        for other in others
    }
    assert pairs == conflicting(program)


@given(programs(most_buffers=8))
def test_the_bound_equals_brute_force(program: Program) -> None:
    times = lifetimes(program)
    chosen = heaviest_antichain(times)
    assert int(times.sizes[list(chosen)].sum()) == heaviest(program)
    pairs = conflicting(program)
    for pair in itertools.combinations(chosen, 2):
        assert frozenset(int(times.buffers[b]) for b in pair) in pairs
    assert sweep(times) <= heaviest(program)


def test_a_bound_that_no_single_run_reaches() -> None:
    """A buffer beside either of two others, though some run needs no three at once."""
    buffers = tuple(Buffer(name, BufferType((16,)), Role.INTERMEDIATE) for name in "abc")
    program = Program(
        (
            # 'a' is made on lane 0 and read on both; 'b' and 'c' follow the readers, one each.
            (Launch(0, (0,), 0, 1, 0), Launch(0, (0,), 0, 1, 0), Launch(0, (1,), 0, 1, 0)),
            (Wait(0, 1), Launch(0, (0,), 0, 1, 0), Launch(0, (2,), 0, 1, 0)),
        ),
        ("k",),
        buffers,
        ("u",),
    )
    times = lifetimes(program)
    assert heaviest_antichain(times) == (0, 1, 2)
    assert sweep(times) == 128


def test_thousands_of_buffers_in_chains() -> None:
    """Lanes that never wait: each needs two buffers at a time, whatever the others do."""
    lanes, length = 8, 250
    buffers = tuple(
        Buffer(f"b{n}", BufferType((16 * (1 + n % length % 3),)), Role.INTERMEDIATE)
        for n in range(lanes * length)
    )
    program = Program(
        tuple(
            tuple(
                Launch(0, (lane * length + n - 1, lane * length + n), 0, 1, 0)
                for n in range(1, length)
            )
            for lane in range(lanes)
        ),
        ("k",),
        buffers,
        ("u",),
    )
    times = lifetimes(program)
    chosen = list(heaviest_antichain(times))
    assert times.sizes[chosen].sum() == lanes * (128 + 192)
    assert np.all(np.bincount([n // length for n in chosen]) == 2)
