"""The number of rounds and the seconds of each kind of contest."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

from tvm_ios.contest.pairs import FEWEST_FOR_AN_INTERVAL


@dataclass(frozen=True, slots=True)
class Rules:
    """Limits of a contest in which runners run in turn.

    Attributes
    ----------
    rounds
        Runs of each runner, at most.
    seconds
        When to end, but not before ``minimum`` rounds: the time of runs that are not slow, and of
        waiting for quiet before them.
    minimum
        Rounds in any case; six are the fewest whose median has a 95 % interval.
    warm_up
        Runs before each one that counts, which then meets its own data in the caches and its
        threads awake: the latency of a model that is run again and again. Slow runners have none.
    hopeless_seconds, hopeless_rounds
        The time that a slow runner gets if it takes more than three times as long as the fastest,
        and the rounds that it gets at least. With no rounds its first run is its only sample.
    margin
        A runner that cannot be faster than the fastest by more than this part of its time is
        stopped, and the contest ends when one is left; None if all run to the end.
    """

    rounds: int = 60
    seconds: float = 20.0
    minimum: int = 6
    warm_up: int = 0
    hopeless_seconds: float = 20.0
    hopeless_rounds: int = 2
    margin: float | None = None

    def within(self, seconds: float) -> Rules:
        """Return these rules with at most this many seconds."""
        most = max(0.0, seconds)
        return replace(
            self,
            seconds=min(self.seconds, most),
            hopeless_seconds=min(self.hopeless_seconds, most),
        )

    def shared_by(self, processes: int) -> Rules:
        """Return the rules of each of several processes that share these rounds and seconds."""
        return replace(
            self,
            rounds=math.ceil(self.rounds / processes),
            seconds=self.seconds / processes,
            minimum=math.ceil(self.minimum / processes),
            hopeless_seconds=self.hopeless_seconds / processes,
        )


#: What a program gains at least if it is worth the trouble: where a process's memory happens to lie
#: is worth as much.
WORTHWHILE = 0.01
#: All policies' programs in one process, to find the most promising one.
SELECTION = Rules(
    rounds=40,
    seconds=10.0,
    minimum=3,
    warm_up=1,
    hopeless_seconds=0.0,
    hopeless_rounds=0,
    margin=WORTHWHILE,
)
#: The most promising program beside the sequential one, in each fresh process.
CONFIRMATION = Rules(rounds=40, seconds=6.0, warm_up=1, margin=WORTHWHILE)
#: Ways to serve many requests, of which each sample has several, in each fresh process.
THROUGHPUT = Rules(rounds=20, seconds=8.0)
#: In how many fresh processes a program has to be faster.
CONFIRMING_PROCESSES = 3
#: What a policy that measures whole programs chooses among; and its choice beside the sequential
#: program, for of the best of several some luck is a part.
CHOICE = Rules(rounds=15, seconds=8.0, minimum=3, warm_up=1, margin=WORTHWHILE)
SECOND_CHOICE = Rules(rounds=30, seconds=8.0, minimum=9, warm_up=1, margin=WORTHWHILE)
#: Profiled runs of whole programs.
PROFILE = Rules(rounds=12, seconds=8.0, minimum=3)
#: A bundle's programs beside peers.
BUNDLE_PEERS = Rules(rounds=60, seconds=15.0, warm_up=3)
#: What ``bench`` times unless it is told otherwise, and in how many fresh processes.
BENCH = Rules(rounds=200, seconds=30.0, minimum=12, warm_up=1, hopeless_rounds=1)
BENCH_PROCESSES = FEWEST_FOR_AN_INTERVAL
