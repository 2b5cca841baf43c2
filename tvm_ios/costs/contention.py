"""A model of the time of kernels that run side by side and slow each other down.

Blocks of threads are spread over the processors. Blocks on one processor share its throughput: as
long as all of them together use less than all of it, none is slower for the others. All kernels
share the device's bandwidth. The model is a fluid one: whenever a kernel begins or ends, the rates
of those that run change, and between two such events every kernel computes at its rate.

Many programs are computed at once, in arrays: a search asks for tens of thousands.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from tvm_ios.costs.kernel_estimate import KernelEstimate
from tvm_ios.devices.device import DeviceDescription

_Floats = npt.NDArray[np.float64]
_Integers = npt.NDArray[np.int64]

#: A part of a kernel so small that it is a rounding error: the kernel has ended.
_REST = 1e-9
#: Seconds so few that they count as zero.
_SHORTEST = 1e-15


class Launch(NamedTuple):
    """A kernel launch of a program; a tuple, because searches make hundreds of thousands."""

    kernel: KernelEstimate
    #: The launches, by their place in the program, that must have ended.
    after: tuple[int, ...]
    #: Seconds from the end of the last of these to the first block.
    delay: float
    #: Seconds from the begin of the program before which it does not begin.
    earliest: float = 0.0


def makespans(
    programs: Sequence[Sequence[Launch]], device: DeviceDescription, overhead: float = 0.0
) -> _Floats:
    """Return the seconds of each program, a sequence of launches that has the device for itself.

    A launch waits only for earlier launches of its program. ``overhead`` is the part by which each
    further kernel slows the others; see
    :class:`tvm_ios.devices.engine.EngineDescription`.
    """
    return _run(programs, device, overhead)[0]


def launch_spans(
    program: Sequence[Launch], device: DeviceDescription, overhead: float = 0.0
) -> tuple[tuple[float, float], ...]:
    """Return the begin and end of each launch of a program, in seconds."""
    ends = _run([program], device, overhead)[1].tolist()
    return tuple(
        (
            max(launch.earliest, max((ends[a] for a in launch.after), default=0.0) + launch.delay),
            end,
        )
        for launch, end in zip(program, ends, strict=True)
    )


def _run(
    programs: Sequence[Sequence[Launch]], device: DeviceDescription, overhead: float
) -> tuple[_Floats, _Floats]:
    """Simulate each program with the device for itself; return its end, and each launch's.

    All are simulated in one pass, and only launches of the same program contend.
    """
    launches = list(itertools.chain.from_iterable(programs))
    if not launches:
        return np.zeros(len(programs)), np.zeros(0)
    program = np.repeat(np.arange(len(programs)), [len(program) for program in programs])
    kernels = [launch.kernel for launch in launches]
    blocks = np.array([kernel.blocks for kernel in kernels], np.float64)
    alone = np.array([kernel.block_seconds for kernel in kernels])
    share = np.array([kernel.share for kernel in kernels])
    moved = np.array([kernel.bytes for kernel in kernels], np.float64)
    delay = np.array([launch.delay for launch in launches])
    earliest = np.array([launch.earliest for launch in launches])
    awaited = np.array([len(launch.after) for launch in launches])
    # No kernel gets faster in company than alone, even if blocks of all kernels together spread
    # over the processors more evenly.
    own = np.maximum(1, share * np.ceil(blocks / device.processors))
    followers = _Followers.of(programs)

    def in_each(values: _Floats, its: _Integers) -> _Floats:
        return np.bincount(its, values, len(programs)).astype(np.float64)

    left, ends = np.ones(len(launches)), np.zeros(len(launches))
    now = np.zeros(len(programs))
    active = np.flatnonzero(awaited == 0)
    delay[active] = np.maximum(delay[active], earliest[active])
    while len(active):
        running = active[delay[active] <= 0]
        its = program[running]
        together = in_each(blocks[running], its)
        load = in_each(blocks[running] * share[running], its) / np.maximum(1, together)
        load *= np.ceil(together / device.processors)
        others = np.maximum(0, np.bincount(its, minlength=len(programs)) - 1)
        slower = np.maximum(1 + overhead * others, load)
        seconds = alone[running] * np.maximum(slower[its], own[running])
        seconds = np.maximum(seconds, _SHORTEST)
        traffic = in_each(moved[running] / seconds, its)
        seconds *= np.maximum(1, traffic / device.bandwidth)[its]

        until = delay[active]
        places = np.searchsorted(active, running)
        until[places] = left[running] * seconds
        step = np.full(len(programs), np.inf)
        np.minimum.at(step, program[active], until)
        now += np.where(np.isinf(step), 0, step)
        passed = step[program[active]]
        delay[active] = np.where(until - passed > _SHORTEST, delay[active] - passed, 0)
        left[running] -= passed[places] / seconds
        ended = running[left[running] <= _REST]
        ends[ended] = now[program[ended]]
        freed = followers.freed_by(ended, awaited)
        delay[freed] = np.maximum(delay[freed], earliest[freed] - now[program[freed]])
        active = np.union1d(np.setdiff1d(active, ended, assume_unique=True), freed)
    return now, ends


@dataclass(frozen=True, slots=True)
class _Followers:
    """For each launch of all programs, the launches that wait for it.

    Those of launch ``n`` are ``targets[starts[n] : starts[n + 1]]``.
    """

    starts: _Integers
    targets: _Integers

    @staticmethod
    def of(programs: Sequence[Sequence[Launch]]) -> _Followers:
        pairs: list[tuple[int, int]] = []
        first = 0
        for program in programs:
            for place, (_, after, _, _) in enumerate(program, first):
                pairs += [(first + source, place) for source in after]
            first += len(program)
        pairs.sort()
        sources, targets = np.array(pairs, np.int64).reshape(-1, 2).T
        return _Followers(np.searchsorted(sources, np.arange(first + 1)), targets)

    def freed_by(self, ended: _Integers, awaited: _Integers) -> _Integers:
        """Count down the launches that wait for ended ones; return those that no longer wait."""
        begin, count = self.starts[ended], self.starts[ended + 1] - self.starts[ended]
        # The indices begin, begin + 1, ... of each launch, as many as its count.
        skipped: _Integers = np.repeat(begin - np.cumsum(count) + count, count)
        targets = self.targets[skipped + np.arange(len(skipped))]
        np.subtract.at(awaited, targets, 1)
        return np.unique(targets[awaited[targets] == 0])
