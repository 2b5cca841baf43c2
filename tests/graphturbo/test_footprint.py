from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from tvm_ios.graphturbo.footprint import live_bytes

STEPS = 6
step = st.integers(0, STEPS - 1)
lives = st.lists(st.tuples(step, step, st.integers(0, 100)).filter(lambda life: life[0] <= life[1]))


@given(lives)
def test_what_is_live_in_a_step_is_what_began_and_did_not_end(
    lives: list[tuple[int, int, int]],
) -> None:
    assert live_bytes(lives, STEPS) == [
        sum(size for first, last, size in lives if first <= now <= last) for now in range(STEPS)
    ]
    assert live_bytes([], 0) == []
