"""The number of rounds and the seconds of each kind of contest."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

from tvm_ios.contest.pairs import FEWEST_FOR_AN_INTERVAL


@dataclass(frozen=True, slots=True)
class Rules:
    """Limits of a contest in which runners run in turn."""

    #: Runs of each runner, at most.
    rounds: int = 60
    #: When to end, but not before ``minimum`` rounds: the time of runs that are not slow, and of
    #: waiting for quiet before them.
    seconds: float = 20.0
    #: Rounds in any case; six are the fewest whose median has a 95 % interval.
    minimum: int = 6
    #: Runs before each one that counts, which then meets its own data in the caches and its threads
    #: awake: the latency of a model that is run again and again. Slow runners have none.
    warm_up: int = 0
    #: The time that a slow runner gets if it takes more than three times as long as the fastest,
    #: and the rounds that it gets at least. With no rounds its first run is its only sample.
    hopeless_seconds: float = 20.0
    hopeless_rounds: int = 2
    #: A runner that cannot be faster than the fastest by more than this part of its time is
    #: stopped, and the contest ends when one is left; None if all run to the end.
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


#: The least gain that makes a program worth the trouble: the memory addresses that a process
#: happens to get matter as much.
WORTHWHILE = 0.01
#: To find the most promising of all policies' programs, in one process.
SELECTION = Rules(
    rounds=40,
    seconds=10.0,
    minimum=3,
    warm_up=1,
    hopeless_seconds=0.0,
    hopeless_rounds=0,
    margin=WORTHWHILE,
)
#: To compare the most promising program with the sequential one, in each fresh process.
CONFIRMATION = Rules(rounds=40, seconds=6.0, warm_up=1, margin=WORTHWHILE)
#: To compare ways to serve requests, in each fresh process; a sample is of several requests.
THROUGHPUT = Rules(rounds=20, seconds=8.0)
#: The number of fresh processes in which a program must be faster.
CONFIRMING_PROCESSES = 3
#: For a policy that measures whole programs: to choose one of them, and to compare the choice with
#: the sequential program, because the best of several is partly luck.
CHOICE = Rules(rounds=15, seconds=8.0, minimum=3, warm_up=1, margin=WORTHWHILE)
SECOND_CHOICE = Rules(rounds=30, seconds=8.0, minimum=9, warm_up=1, margin=WORTHWHILE)
#: To profile runs of whole programs.
PROFILE = Rules(rounds=12, seconds=8.0, minimum=3)
#: To compare a bundle's programs with peers.
BUNDLE_PEERS = Rules(rounds=60, seconds=15.0, warm_up=3)
#: The defaults of ``bench``, and its number of fresh processes.
BENCH = Rules(rounds=200, seconds=30.0, minimum=12, warm_up=1, hopeless_rounds=1)
BENCH_PROCESSES = FEWEST_FOR_AN_INTERVAL
