"""Write lanes of launches with exactly the waits that their data needs."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Protocol

from tvm_ios.program.program import Launch, Wait


class PhaseWriter(Protocol):
    """A receiver of the phases of units' code; see :meth:`LaneWriter.phase`."""

    def phase(
        self,
        launches: Sequence[tuple[int, Launch]],
        reads: Collection[int],
        writes: Collection[int],
    ) -> None:
        """Append pairs of a lane and its launch, which may run at the same time.

        ``reads`` and ``writes`` are the numbers of the memory regions that they use.
        """
        ...


class LaneWriter:
    """Appends launches to lanes and puts before each the waits that it needs.

    The waits follow from the regions of memory: a reader waits for the writers, a writer for the
    writers and the readers before it. Each lane remembers what earlier waits have proved about the
    other lanes (a vector clock), and a wait that says nothing new is left out. As a wait only ever
    names launches that are written already, waits form no cycle.
    """

    def __init__(self, lanes: int) -> None:
        self._items: list[list[Launch | Wait]] = [[] for _ in range(lanes)]
        self._clocks = [[0] * lanes for _ in range(lanes)]
        #: For each lane the vector clock when its first k launches have finished.
        self._history: list[list[tuple[int, ...]]] = [[(0,) * lanes] for _ in range(lanes)]
        #: For each region the last phase that wrote it, as finished launches of each lane.
        self._writers: dict[int, dict[int, int]] = {}
        #: For each region its readers since then.
        self._readers: dict[int, dict[int, int]] = {}
        self._floor: dict[int, int] = {}

    def phase(
        self,
        launches: Sequence[tuple[int, Launch]],
        reads: Collection[int],
        writes: Collection[int],
    ) -> None:
        """Append (lane, launch) pairs that may run at the same time, such as tiles of one kernel.

        ``launches`` is not empty. ``reads`` and ``writes`` are regions of memory, numbered as by
        :func:`tvm_ios.program.regions.regions_of`; what is read and written is in ``writes``.
        """
        required = dict(self._floor)
        for region in {*reads, *writes}:
            _raise_to(required, self._writers.get(region, {}))
        for region in writes:
            _raise_to(required, self._readers.get(region, {}))
        finished: dict[int, int] = {}
        for lane, launch in launches:
            self._wait(lane, required)
            self._items[lane].append(launch)
            self._clocks[lane][lane] += 1
            self._history[lane].append(tuple(self._clocks[lane]))
            finished[lane] = self._clocks[lane][lane]
        for region in reads:
            _raise_to(self._readers.setdefault(region, {}), finished)
        for region in writes:
            # A launch that waits for this phase has waited for the earlier ones too.
            self._writers[region] = dict(finished)
            self._readers[region] = {}

    def barrier(self) -> None:
        """Make every later launch wait for all launches so far."""
        self._floor = {lane: len(past) - 1 for lane, past in enumerate(self._history)}

    def lanes(self) -> tuple[tuple[Launch | Wait, ...], ...]:
        """Return the written lanes."""
        return tuple(map(tuple, self._items))

    def _wait(self, lane: int, required: Mapping[int, int]) -> None:
        finished = self._clocks[lane]
        news = {
            other: launches
            for other, launches in required.items()
            if other != lane and finished[other] < launches
        }
        for other, launches in sorted(news.items()):
            implied = any(
                third != other and self._history[third][then][other] >= launches
                for third, then in news.items()
            )
            if not implied:
                self._items[lane].append(Wait(other, launches))
                then = self._history[other][launches]
                finished[:] = map(max, finished, then)


def _raise_to(clock: dict[int, int], other: Mapping[int, int]) -> None:
    for lane, launches in other.items():
        clock[lane] = max(clock.get(lane, 0), launches)
