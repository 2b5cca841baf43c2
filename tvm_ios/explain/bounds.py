"""The time that each block of a program took, and lower bounds on it."""

from __future__ import annotations

import statistics
from collections import OrderedDict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from tvm_ios.explain.intervals import common, length, union
from tvm_ios.explain.tasks import Work
from tvm_ios.explain.timeline import Timeline, quietest
from tvm_ios.graph.blocks import cut_blocks
from tvm_ios.graph.op_graph import bits
from tvm_ios.program.memory_plan import MemoryPlan, pieces
from tvm_ios.program.regions import region_bytes, regions_of


class Bound(StrEnum):
    """Kinds of lower bounds on the time of a block."""

    #: The longest chain of kernels that need each other's results, as they ran.
    CRITICAL_PATH = "critical path"
    #: The time of all kernels, shared evenly by the lanes.
    LANES = "work over lanes"
    #: The floating-point operations at the machine's peak.
    ARITHMETIC = "arithmetic"
    #: The bytes that the caches do not hold, at the memory's peak.
    MEMORY = "memory"


@dataclass(frozen=True, slots=True)
class Peaks:
    """The peak rates of the machine with the program's lanes.

    ``flops`` are floating-point operations per second, ``bandwidth`` bytes per second from and to
    memory, ``cache`` the bytes that the caches keep from one run to the next.
    """

    flops: float
    bandwidth: float
    cache: int


@dataclass(frozen=True)
class Region:
    """The times and bounds of a block of the program, or of all of it; medians over runs."""

    units: tuple[int, ...]
    #: The time in which the region was running, or was what the program waited for
    #: (:meth:`tvm_ios.explain.timeline.Timeline.instants`).
    seconds: float
    #: Lower bounds, in seconds. With the same kernels on the same lanes no schedule beats the
    #: critical path and the work over lanes. With the same operators and tensors no kernels beat
    #: the arithmetic and the memory traffic; these two are left out where they are zero, unknown,
    #: or above the measured time.
    bounds: Mapping[Bound, float]
    #: The units of the longest chain, in one of the runs.
    path: tuple[int, ...]
    #: Shares of its lanes' time: running its kernels, waiting for data, launching. The rest of the
    #: time went to kernels of other blocks.
    busy: float
    waiting: float
    launching: float

    launches: int
    #: Floating-point operations; None if the executable does not say.
    flops: int | None
    #: Bytes that its kernels read and write, each tensor once per kernel.
    nbytes: int
    #: Those of them that are no longer in the caches (:func:`memory_traffic`).
    memory_bytes: int

    @property
    def bound(self) -> Bound:
        """The largest of the lower bounds."""
        return max(self.bounds, key=lambda bound: self.bounds[bound])

    @property
    def ratio(self) -> float:
        """The measured time over the largest lower bound; at least 1."""
        largest = self.bounds[self.bound]
        return self.seconds / largest if largest else 1.0

    def to_json(self, names: Sequence[str]) -> dict[str, Any]:
        """Return the region as plain data, with times in ms; ``names`` has a name for each unit."""
        return {
            "units": [names[unit] for unit in self.units],
            "ms": self.seconds * 1e3,
            "bounds_ms": {
                bound.value.replace(" ", "_"): seconds * 1e3
                for bound, seconds in self.bounds.items()
            },
            "bound": self.bound.value.replace(" ", "_"),
            "ratio": self.ratio,
            "busy": self.busy,
            "waiting": self.waiting,
            "launching": self.launching,
            "launches": self.launches,
            "flops": self.flops,
            "bytes": self.nbytes,
            "memory_bytes": self.memory_bytes,
        }


def split_blocks(work: Work) -> tuple[tuple[int, ...], ...]:
    """Return the units of each block of a program, cut at the same places as by searches."""
    return tuple(tuple(bits(block)) for block in cut_blocks(work.unit_graph))


def measure_region(
    work: Work,
    units: Sequence[int],
    runs: Sequence[Timeline],
    flops: Sequence[int] | None,
    peaks: Peaks,
    plan: MemoryPlan | None = None,
) -> Region:
    """Return the time that some units took, and its lower bounds.

    Medians are taken over those of ``runs`` (at least one) in which the units were fastest.
    ``flops`` has the floating-point operations of each unit of the program, or is None; ``plan``
    tells which buffers share bytes of the arena.
    """
    inside = frozenset(units)
    tasks = [number for number, task in enumerate(work.tasks) if task.unit in inside]
    runs = quietest(runs, lambda run: length(run.instants(inside)))
    instants = [run.instants(inside) for run in runs]
    seconds = statistics.median(map(length, instants))
    paths = [critical_path(work, tasks, run) for run in runs]
    bounds = {
        Bound.CRITICAL_PATH: statistics.median(path[0] for path in paths),
        Bound.LANES: statistics.median(run.busy(inside) / run.lanes for run in runs),
    }
    total = None if flops is None else sum(flops[unit] for unit in units)
    traffic = memory_traffic(work, peaks.cache, plan)
    memory_bytes = sum(traffic[number] for number in tasks)
    machine = {
        Bound.ARITHMETIC: (total or 0) / peaks.flops,
        Bound.MEMORY: memory_bytes / peaks.bandwidth,
    }
    bounds |= {bound: least for bound, least in machine.items() if 0 < least <= seconds}

    def share(lane_seconds: Sequence[float]) -> float:
        whole = [length(when) * run.lanes for when, run in zip(instants, runs, strict=True)]
        return statistics.median(
            part / all_of_it if all_of_it else 0.0
            for part, all_of_it in zip(lane_seconds, whole, strict=True)
        )

    def within(kind: str) -> list[float]:
        return [
            sum(common(lane, when) for lane in getattr(run, kind))
            for when, run in zip(instants, runs, strict=True)
        ]

    return Region(
        units=tuple(units),
        seconds=seconds,
        bounds=bounds,
        path=paths[0][1],
        busy=share([run.busy(inside) for run in runs]),
        waiting=share(within("waiting")),
        launching=share(within("launching")),
        launches=sum(len(work.tasks[number].launches) for number in tasks),
        flops=total,
        nbytes=sum(map(work.nbytes, tasks)),
        memory_bytes=memory_bytes,
    )


def critical_path(
    work: Work, tasks: Collection[int], run: Timeline
) -> tuple[float, tuple[int, ...]]:
    """Return the longest chain of dependent tasks: its seconds, and its units in order.

    The time of a task is the time in which at least one lane works on it.
    """
    when = {(step.lane, step.place): (step.begin, step.end) for step in run.steps}
    longest: dict[int, tuple[float, int]] = {}
    for number in sorted(tasks):
        task = work.tasks[number]
        before = max(
            ((longest[need][0], need) for need in task.needs if need in longest),
            default=(0.0, -1),
        )
        task_seconds = length(union(when[place] for place in task.launches))
        longest[number] = (before[0] + task_seconds, before[1])
    at = max(longest, key=lambda number: longest[number][0], default=-1)
    seconds = longest[at][0] if longest else 0.0
    units: dict[int, None] = {}
    while at >= 0:
        units[work.tasks[at].unit] = None
        at = longest[at][1]
    return seconds, tuple(reversed(units))


def memory_traffic(work: Work, cache: int, plan: MemoryPlan | None = None) -> tuple[int, ...]:
    """Return for each task the bytes of its buffers that are not in the cache when it begins.

    Models one cache of ``cache`` bytes that keeps the most recently used buffers from run to run,
    by whole buffers, or by the parts that kernels use alone. With a memory plan, buffers that share
    bytes of the arena share them in the cache, too (a buffer with parts counts as if it shared
    none). A byte that is not cached counts once, whether it is read or written.
    """
    memory, sizes = _memory(work, plan)
    cached: OrderedDict[int, int] = OrderedDict()
    used = 0
    missed: list[int] = []
    for _ in ("a run that fills the cache", "the run that counts"):
        missed = []
        for task in work.tasks:
            touched = dict.fromkeys(p for buffer in task.buffers for p in memory[buffer])
            missed.append(sum(sizes[piece] for piece in touched if piece not in cached))
            for piece in touched:
                used += sizes[piece] - cached.pop(piece, 0)
                cached[piece] = sizes[piece]
            while used > cache:
                used -= cached.popitem(last=False)[1]
    return tuple(missed)


def _memory(work: Work, plan: MemoryPlan | None) -> tuple[list[range], list[int]]:
    """Return for each buffer its pieces of memory, and the bytes of each piece."""
    buffers = work.program.buffers
    memory, sizes = list(regions_of(buffers)), list(region_bytes(buffers))
    if plan is not None:
        divided = {b.part.of for b in buffers if b.part is not None}
        shared, bytes_of = pieces(work.program, plan)
        for buffer, shared_pieces in shared.items():
            if buffer not in divided and buffers[buffer].part is None:
                memory[buffer] = range(
                    shared_pieces.start + len(sizes), shared_pieces.stop + len(sizes)
                )
        sizes += bytes_of
    return memory, sizes
