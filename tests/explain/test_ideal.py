"""Bounds that no schedule beats, on a diamond whose answer is known."""

from __future__ import annotations

import pytest

from tests.refusals import refused
from tvm_ios.explain.ideal import Ideal, OneLaneError, ideal, one_lane_seconds
from tvm_ios.explain.tasks import find_work
from tvm_ios.program.program import Buffer, BufferType, Launch, Program, Role

TYPE = BufferType((4,))
BUFFERS = (
    Buffer("x", TYPE, Role.INPUT),
    Buffer("a", TYPE, Role.INTERMEDIATE),
    Buffer("b", TYPE, Role.INTERMEDIATE),
    Buffer("y", TYPE, Role.OUTPUT),
)
#: Two units on one input, and one that reads both.
DIAMOND = Program(
    (
        (
            Launch(0, (0, 1), 0, 8, 0),
            Launch(0, (0, 2), 0, 2, 1),
            Launch(1, (1, 2, 3), 0, 1, 2),
        ),
    ),
    ("f", "g"),
    BUFFERS,
    ("a", "b", "join"),
)


@pytest.mark.parametrize(
    ("lanes", "expected"),
    [
        (1, Ideal(12.0, 14.0)),
        (2, Ideal(4.0 + 4.0, 7.0)),
        (4, Ideal(2.0 + 4.0, 3.5)),
        # The second unit has two rTasks, the last one has one: more lanes help neither.
        (8, Ideal(1.0 + 4.0, 1.75)),
        (64, Ideal(1.0 + 4.0, 14 / 64)),
    ],
)
def test_a_diamond(lanes: int, expected: Ideal):
    bounds = ideal(find_work(DIAMOND), (8.0, 2.0, 4.0), lanes)
    assert bounds == expected
    assert bounds.seconds == max(expected.critical_path, expected.work_over_lanes)


def test_medians_of_runs():
    work = find_work(DIAMOND)
    assert one_lane_seconds(work, [(1, 2, 3), (2, 2, 9), (9, 1, 4)]) == (2, 2, 4)
    with refused(OneLaneError, "3 launches"):
        one_lane_seconds(work, [(1, 2)])


def test_programs_of_several_lanes_are_refused():
    work = find_work(Program((*DIAMOND.lanes, ()), DIAMOND.kernels, BUFFERS, DIAMOND.units))
    with refused(OneLaneError, "2 lanes"):
        ideal(work, (1.0, 1.0, 1.0), 2)
