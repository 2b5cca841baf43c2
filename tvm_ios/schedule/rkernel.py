"""rKernels: the ways to compute a unit in rTasks (Rammer, section 3.1; plain data)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

#: Medians of equal kernels have been seen to differ by so much.
_MARGIN = 0.02


@dataclass(frozen=True, slots=True)
class RKernel:
    """One way to compute a unit: phases that run one after another, each of equal rTasks.

    Attributes
    ----------
    name
        Unlike that of the unit's other rKernels.
    tasks
        For each phase its rTasks; they are independent of each other.
    task_seconds
        For each phase the seconds of one rTask on one lane.
    seconds
        The latency of the whole unit, alone on all lanes.
    """

    name: str
    tasks: tuple[int, ...]
    task_seconds: tuple[float, ...]
    seconds: float

    @property
    def work(self) -> float:
        """Seconds of all rTasks one after another: what efficiency means."""
        return sum(n * each for n, each in zip(self.tasks, self.task_seconds, strict=True))


def fastest(kernels: tuple[RKernel, ...]) -> RKernel:
    """The one that takes least time alone on all lanes."""
    return _least(kernels, lambda kernel: kernel.seconds)


def most_efficient(kernels: tuple[RKernel, ...]) -> RKernel:
    """The one of least work: the seconds of an rTask times rTasks.

    Rammer's paper multiplies the kernel's own run time, which counts the waves of a kernel of more
    rTasks than lanes twice: then it prefers few large rTasks that are more work.
    ``tests/rammer/test_kernel_choice.py`` has a wave that this makes slower.
    """
    return _least(kernels, lambda kernel: kernel.work)


def _least(kernels: tuple[RKernel, ...], cost: Callable[[RKernel], float]) -> RKernel:
    """The best, but the usual one (the first) unless another is better by more than noise."""
    usual, best = kernels[0], min(kernels, key=cost)
    return best if cost(best) < cost(usual) * (1 - _MARGIN) else usual
