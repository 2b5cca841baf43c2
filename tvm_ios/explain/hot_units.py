"""The kernels that take most of the time, and the rates that they reach."""

from __future__ import annotations

import statistics
from collections import defaultdict
from collections.abc import Collection, Sequence
from dataclasses import dataclass

from tvm_ios.explain.tasks import Work
from tvm_ios.explain.timeline import Timeline, quietest


@dataclass(frozen=True, slots=True)
class HotUnits:
    """Units that run the same kernels.

    ``seconds`` is their kernel time in a run divided by the number of lanes (the median over the
    fastest runs), and ``share`` their part of the program's kernel time. ``flops`` (None if
    unknown) and ``nbytes`` (read and written) are sums over all of them.
    """

    units: tuple[int, ...]
    kernels: tuple[str, ...]
    seconds: float
    share: float
    flops: int | None
    nbytes: int

    @property
    def flops_per_second(self) -> float | None:
        """Floating-point operations per second of all lanes together; None if unknown."""
        return None if self.flops is None or not self.seconds else self.flops / self.seconds

    @property
    def bytes_per_second(self) -> float:
        """Bytes read and written per second, from the caches or from memory."""
        return self.nbytes / self.seconds if self.seconds else 0.0


def hot_units(
    work: Work, runs: Sequence[Timeline], flops: Sequence[int] | None
) -> tuple[HotUnits, ...]:
    """Return the units by kernel time, longest first; units with equal kernels form one entry.

    ``flops`` has the floating-point operations of each unit, or is None if they are unknown.
    """
    kernels: dict[int, list[str]] = defaultdict(list)
    nbytes: dict[int, int] = defaultdict(int)
    for number, task in enumerate(work.tasks):
        kernels[task.unit].append(task.kernel)
        nbytes[task.unit] += work.nbytes(number)
    alike: dict[tuple[str, ...], list[int]] = defaultdict(list)
    for unit, symbols in kernels.items():
        alike[tuple(symbols)].append(unit)
    everything = _seconds(runs, kernels)
    rows = [
        HotUnits(
            units=tuple(units),
            kernels=symbols,
            seconds=(seconds := _seconds(runs, set(units))),
            share=seconds / everything if everything else 0.0,
            flops=None if flops is None else sum(flops[unit] for unit in units),
            nbytes=sum(nbytes[unit] for unit in units),
        )
        for symbols, units in alike.items()
    ]
    return tuple(sorted(rows, key=lambda row: -row.seconds))


def _seconds(runs: Sequence[Timeline], units: Collection[int]) -> float:
    def busy(run: Timeline) -> float:
        return run.busy(units) / run.lanes

    return statistics.median(map(busy, quietest(runs, busy)))
