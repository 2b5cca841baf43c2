"""rKernels: alternative ways to compute a unit in rTasks (Rammer, section 3.1; plain data)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

#: Medians of equal kernels have been seen to differ by so much.
_MARGIN = 0.02


@dataclass(frozen=True, slots=True)
class RKernel:
    """A way to compute a unit: phases that run one after another, each of equal rTasks.

    ``name`` is unique among the unit's rKernels. ``tasks`` has the number of independent rTasks of
    each phase, ``task_seconds`` the seconds of one on one lane. ``seconds`` is the latency of the
    whole unit, alone on all lanes.
    """

    name: str
    tasks: tuple[int, ...]
    task_seconds: tuple[float, ...]
    seconds: float

    @property
    def work(self) -> float:
        """Total seconds of all rTasks, by which efficiency is compared."""
        return sum(n * each for n, each in zip(self.tasks, self.task_seconds, strict=True))


def fastest(kernels: tuple[RKernel, ...]) -> RKernel:
    """Return the rKernel with the least latency alone on all lanes."""
    return _least(kernels, lambda kernel: kernel.seconds)


def most_efficient(kernels: tuple[RKernel, ...]) -> RKernel:
    """Return the rKernel of least work: rTasks times the seconds of one.

    Rammer's paper multiplies by the kernel's own run time instead, which counts the waves of a
    kernel with more rTasks than lanes twice, and so prefers few large rTasks of more work.
    ``tests/rammer/test_kernel_choice.py`` has a wave that this makes slower.
    """
    return _least(kernels, lambda kernel: kernel.work)


def _least(kernels: tuple[RKernel, ...], cost: Callable[[RKernel], float]) -> RKernel:
    """Return the cheapest rKernel, or the usual (first) one if the best is within noise of it."""
    usual, best = kernels[0], min(kernels, key=cost)
    return best if cost(best) < cost(usual) * (1 - _MARGIN) else usual
