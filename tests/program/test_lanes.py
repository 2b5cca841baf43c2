from __future__ import annotations

from itertools import product

from hypothesis import example, given
from hypothesis import strategies as st

from tests.refusals import refused
from tvm_ios.program.lanes import allocate_lanes

seconds = st.floats(0.01, 100)


@st.composite
def speedups(draw: st.DrawFn) -> list[float]:
    """Seconds on 1 to 5 lanes, never slower on more."""
    return sorted(draw(st.lists(seconds, min_size=5, max_size=5)), reverse=True)


@given(st.lists(speedups(), min_size=1, max_size=4), st.integers(1, 5))
def test_teams_are_disjoint_cover_all_lanes_and_end_earliest(
    groups: list[list[float]], lanes: int
) -> None:
    if len(groups) > lanes:
        groups = groups[:lanes]
    teams = allocate_lanes(groups, lanes)
    assert sorted(lane for team in teams for lane in team) == list(range(lanes))
    assert all(team == tuple(sorted(team)) and team for team in teams)
    end = max(on[len(team) - 1] for on, team in zip(groups, teams, strict=True))
    assert end == min(
        max(on[size - 1] for on, size in zip(groups, sizes, strict=True))
        for sizes in product(range(1, lanes + 1), repeat=len(groups))
        if sum(sizes) == lanes
    )


@given(st.lists(seconds, min_size=1, max_size=12), st.integers(1, 4))
@example([1.0, 1.0, 2.0], 2)
def test_more_groups_than_lanes_are_packed_one_lane_each(groups: list[float], lanes: int) -> None:
    if len(groups) <= lanes:
        groups = groups * (lanes + 1)
    placed = allocate_lanes(groups, lanes)
    assert all(len(lane) == 1 and 0 <= lane[0] < lanes for lane in placed)
    load = [
        sum(t for t, on in zip(groups, placed, strict=True) if on == (k,)) for k in range(lanes)
    ]
    assert all(load)
    # Longest first is within 4/3 of the best, which is no better than this.
    assert max(load) <= (4 / 3 * max(sum(groups) / lanes, max(groups), _two(groups, lanes))) * 1.001


def _two(groups: list[float], lanes: int) -> float:
    """Two of the longest lanes + 1 groups share a lane in any packing."""
    longest = sorted(groups, reverse=True)
    return longest[lanes - 1] + longest[lanes]


def test_one_group_gets_all_lanes() -> None:
    assert allocate_lanes([[3.0, 2.0]], 4) == ((0, 1, 2, 3),)
    assert allocate_lanes([], 4) == ()


def test_what_makes_no_sense_is_refused() -> None:
    with refused(ValueError, "0 lanes"):
        allocate_lanes([1.0], 0)
    with refused(ValueError, "latency"):
        allocate_lanes([[]], 1)
