"""Progress bars on stderr."""

from __future__ import annotations

from tvm_ios.cli.frame.output import Bars


def test_the_clock_of_what_ended_early_stands_still() -> None:
    bars, now = Bars(), [0.0]
    bars._bars.get_time = lambda: now[0]
    for at, what, done in [(0, "a contest", 0), (2, "a contest", 3), (5, "the next work", 0)]:
        now[0] = at
        bars(what, done, 10)
    now[0] = 9.0
    contest, following = bars._bars.tasks
    assert (contest.elapsed, following.elapsed) == (5.0, 4.0)
    bars("a contest", 4, 10)
    now[0] = 11.0
    bars.stop()
    assert (contest.elapsed, following.elapsed) == (11.0, 4.0)
