"""A random walk through the orders of a problem whose peaks are small enough.

Neighbouring runs of operators change places, where neither reads from the other. The fewer bytes
are live near the peak, and the more briefly, the nearer is a smaller peak, and the easier it is to
place the buffers: most moves must not make more of that.
"""

from __future__ import annotations

import random
from collections.abc import Sequence

from tvm_ios.graph.op_graph import mask_of
from tvm_ios.memory.footprint import Footprints
from tvm_ios.memory.problem import MemoryProblem

#: The most operators of a run.
_RUN = 16
#: The share of the peak above which bytes are near it.
_NEAR = 0.8
#: The share of moves that may make more of these, and by which part.
_LENIENT, _MORE = 0.2, 0.02


class OrderWalk:
    """An order that changes at random; the walk depends on the seed alone."""

    def __init__(self, problem: MemoryProblem, order: Sequence[int], seed: int = 0) -> None:
        self.order, self.steps = tuple(order), problem.footprints(order)
        self._problem, self._random = problem, random.Random(seed)

    def move(self, most_peak: int) -> bool:
        """Try to change the order; return whether it was changed, to one of at most such a peak."""
        order = self._exchanged()
        if order is None:
            return False
        steps, lenient = self._problem.footprints(order), self._random.random() < _LENIENT
        allowed = _near(self.steps, most_peak) * (1 + _MORE * lenient)
        if steps.peak > most_peak or _near(steps, most_peak) > allowed:
            return False
        self.order, self.steps = order, steps
        return True

    def _exchanged(self) -> tuple[int, ...] | None:
        """Return an order with two neighbouring runs exchanged, or None if they must not be."""
        middle = self._random.randint(0, len(self.order))
        begin = max(0, middle - self._random.randint(1, _RUN))
        end = middle + self._random.randint(1, _RUN)
        earlier, later = self.order[begin:middle], self.order[middle:end]
        done = mask_of(earlier)
        if any(self._problem.predecessors[operator] & done for operator in later):
            return None
        return (*self.order[:begin], *later, *earlier, *self.order[end:])


def _near(steps: Footprints, peak: int) -> float:
    """Return the bytes above a share of a peak, summed over all steps."""
    return sum(nbytes - _NEAR * peak for nbytes in steps.stable if nbytes > _NEAR * peak)
