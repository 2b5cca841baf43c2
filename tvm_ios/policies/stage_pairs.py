"""The cheapest interleaving of two sequences of stages, some of them side by side.

A step takes the next stages of one sequence, of the other, or of both side by side. Where the costs
of steps are those of a barrier after each, the way of the least sum is found exactly, by dynamic
programming over pairs of prefixes: of sequences of n and m stages, where a step takes up to k of
each, n m k² steps are compared.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import product

import numpy as np
import numpy.typing as npt

#: Seconds by number of stages, or of lanes.
Seconds = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True, order=True)
class Step:
    """The next stages of two sequences, which run side by side.

    ``left`` and ``right`` count the stages of each sequence that ran before; ``of_left`` and
    ``of_right`` are how many the step takes, 0 if the other sequence runs alone.
    """

    left: int
    right: int
    of_left: int
    of_right: int


class StagePairs:
    """The steps through two sequences of stages, the cost of each step, and the cheapest way.

    ``left`` and ``right`` are the lengths of the sequences, ``most`` how many stages of each a step
    takes at most. Steps that take the beginning of both sequences, or the rest of both, may take
    more.
    """

    def __init__(self, left: int, right: int, most: int) -> None:
        self.left, self.right, self.most = left, right, most
        #: Costs of steps, by where a step ends and how many stages it takes of each sequence.
        self._inner = np.full((left + 1, right + 1, most + 1, most + 1), np.inf)
        #: Costs of steps that start where both sequences begin, by where they end, and of steps to
        #: the end of both, by where they begin.
        self._heads = np.full((left + 1, right + 1), np.inf)
        self._tails = np.full((left + 1, right + 1), np.inf)

    def steps(self) -> Iterator[Step]:
        """Yield the steps that take at most ``most`` stages of each sequence, and some of both."""
        for i, j in product(range(self.left), range(self.right)):
            takes = (range(1, min(self.most, rest) + 1) for rest in (self.left - i, self.right - j))
            for of_left, of_right in product(*takes):
                yield Step(i, j, of_left, of_right)

    @property
    def count(self) -> int:
        """The number of steps with stages of both sequences whose costs are finite."""
        return int(np.isfinite(self._inner[:, :, 1:, 1:]).sum())

    def set_alone(self, left: Sequence[float], right: Sequence[float]) -> None:
        """Set the cost of each stage of both sequences if it runs alone."""
        self._inner[1:, :, 1, 0] = np.reshape(left, (-1, 1))
        self._inner[:, 1:, 0, 1] = np.reshape(right, (1, -1))

    def set_cost(self, step: Step, seconds: float) -> None:
        """Set the cost of a step."""
        i, j = step.left + step.of_left, step.right + step.of_right
        if max(step.of_left, step.of_right) <= self.most:
            self._inner[i, j, step.of_left, step.of_right] = seconds
        if step.of_left and step.of_right:
            if (step.left, step.right) == (0, 0):
                self._heads[i, j] = seconds
            if (i, j) == (self.left, self.right):
                self._tails[step.left, step.right] = seconds

    def set_bounds(self, left: Seconds, right: Seconds) -> None:
        """Set lower bounds for all steps of both sequences, as if these did not disturb each other.

        ``left`` and ``right`` hold for each stage its seconds on 1, 2, ... lanes, which must not
        grow with the lanes.
        """
        lefts, rights = _sums(left), _sums(right)
        n, m = self.left, self.right
        for k in range(1, min(n, self.most) + 1):
            of_left = lefts[k:] - lefts[:-k]
            for q in range(1, min(m, self.most) + 1):
                of_right = rights[q:] - rights[:-q]
                self._inner[k:, q:, k, q] = side_by_side(of_left, of_right)
        self._heads[1:, 1:] = side_by_side(lefts[1:], rights[1:])
        self._tails[:n, :m] = side_by_side(lefts[-1] - lefts[:n], rights[-1] - rights[:m])

    def only(self, steps: Iterable[Step]) -> StagePairs:
        """Return a copy whose only steps with stages of both sequences are the given ones."""
        rest = StagePairs(self.left, self.right, self.most)
        rest._inner[:, :, 1, 0], rest._inner[:, :, 0, 1] = (
            self._inner[:, :, 1, 0],
            self._inner[:, :, 0, 1],
        )
        for step in steps:
            rest.set_cost(step, self.cost(step))
        return rest

    def cost(self, step: Step) -> float:
        """Return the cost of a step; infinite if it takes too many stages."""
        i, j = step.left + step.of_left, step.right + step.of_right
        if max(step.of_left, step.of_right) <= self.most:
            return float(self._inner[i, j, step.of_left, step.of_right])
        if (step.left, step.right) == (0, 0):
            return float(self._heads[i, j])
        if (i, j) == (self.left, self.right):
            return float(self._tails[step.left, step.right])
        return np.inf

    def cheapest(self) -> tuple[float, tuple[Step, ...]]:
        """Return the least sum of seconds, and the steps of the way that costs it."""
        n, m, most = self.left, self.right, self.most
        # Padded, so that every place has ``most`` places before it; reversed, as steps count back.
        best = np.full((n + 1 + most, m + 1 + most), np.inf)
        taken: dict[tuple[int, int], Step] = {}
        for i in range(n + 1):
            for j in range(m + 1):
                if i == j == 0:
                    best[most, most] = 0.0
                    continue
                before = best[i : i + most + 1, j : j + most + 1][::-1, ::-1]
                sums = before + self._inner[i, j]
                k, q = divmod(int(np.argmin(sums)), most + 1)
                least = float(sums[k, q])
                if self._heads[i, j] < least:
                    least, k, q = float(self._heads[i, j]), i, j
                best[i + most, j + most] = least
                taken[i, j] = Step(i - k, j - q, k, q)
        ends = best[most:, most:] + self._tails
        i, j = divmod(int(np.argmin(ends)), m + 1)
        steps: list[Step] = []
        seconds = float(best[n + most, m + most])
        if ends[i, j] < seconds:
            seconds = float(ends[i, j])
            steps.append(Step(i, j, n - i, m - j))
        else:
            i, j = n, m
        while (i, j) != (0, 0):
            steps.append(taken[i, j])
            i, j = steps[-1].left, steps[-1].right
        return seconds, tuple(reversed(steps))


def side_by_side(left: Seconds, right: Seconds) -> Seconds:
    """Return the seconds of each pair of rows at once, with the best division of the lanes.

    Rows hold seconds on 1, 2, ... lanes, at least two. The result has a row for each of ``left``
    and a column for each of ``right``.
    """
    lanes = left.shape[1]
    divisions = (
        np.maximum(left[:, None, of_left - 1], right[None, :, lanes - of_left - 1])
        for of_left in range(1, lanes)
    )
    return np.minimum.reduce(list(divisions))


def _sums(seconds: Seconds) -> Seconds:
    """Return the seconds of the first 0, 1, 2, ... stages together."""
    return np.concatenate([np.zeros((1, seconds.shape[1])), np.cumsum(seconds, axis=0)])
