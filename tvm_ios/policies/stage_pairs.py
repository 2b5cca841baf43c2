"""Two sequences of stages side by side: the cheapest way through all pairs of their prefixes.

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
    """The next stages of two sequences.

    Attributes
    ----------
    left, right
        How many stages of each are done before.
    of_left, of_right
        How many it takes; 0 where the other runs alone.
    """

    left: int
    right: int
    of_left: int
    of_right: int


class StagePairs:
    """The steps through two sequences of stages, what each costs, and the cheapest way.

    Parameters
    ----------
    left, right
        How many stages the sequences have.
    most
        How many of each a step takes at most. Steps that take a sequence's beginning, or the rest
        of it, beside the same of the other one, may take any number.
    """

    def __init__(self, left: int, right: int, most: int) -> None:
        self.left, self.right, self.most = left, right, most
        #: By where a step ends, and how many stages it takes of each.
        self._inner = np.full((left + 1, right + 1, most + 1, most + 1), np.inf)
        #: Those from the begin on, by where they end; and those to the end, by where they begin.
        self._heads = np.full((left + 1, right + 1), np.inf)
        self._tails = np.full((left + 1, right + 1), np.inf)

    def steps(self) -> Iterator[Step]:
        """Those that take of both, except to begin or to end with more than others may take."""
        for i, j in product(range(self.left), range(self.right)):
            takes = (range(1, min(self.most, rest) + 1) for rest in (self.left - i, self.right - j))
            for of_left, of_right in product(*takes):
                yield Step(i, j, of_left, of_right)

    @property
    def count(self) -> int:
        """How many steps there are that take of both."""
        return int(np.isfinite(self._inner[:, :, 1:, 1:]).sum())

    def set_alone(self, left: Sequence[float], right: Sequence[float]) -> None:
        """Say what the stages of each sequence cost alone."""
        self._inner[1:, :, 1, 0] = np.reshape(left, (-1, 1))
        self._inner[:, 1:, 0, 1] = np.reshape(right, (1, -1))

    def set_cost(self, step: Step, seconds: float) -> None:
        """Say what a step costs."""
        i, j = step.left + step.of_left, step.right + step.of_right
        if max(step.of_left, step.of_right) <= self.most:
            self._inner[i, j, step.of_left, step.of_right] = seconds
        if step.of_left and step.of_right:
            if (step.left, step.right) == (0, 0):
                self._heads[i, j] = seconds
            if (i, j) == (self.left, self.right):
                self._tails[step.left, step.right] = seconds

    def set_bounds(self, left: Seconds, right: Seconds) -> None:
        """Say what all steps that take of both cost at least, if they do not disturb each other.

        Parameters
        ----------
        left, right
            Of each sequence the seconds of each stage on 1, 2, ... lanes; no less with fewer.
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
        """The same, where of the steps that take of both there are only some."""
        rest = StagePairs(self.left, self.right, self.most)
        rest._inner[:, :, 1, 0], rest._inner[:, :, 0, 1] = (
            self._inner[:, :, 1, 0],
            self._inner[:, :, 0, 1],
        )
        for step in steps:
            rest.set_cost(step, self.cost(step))
        return rest

    def cost(self, step: Step) -> float:
        """What a step costs; infinite if it takes too many stages."""
        i, j = step.left + step.of_left, step.right + step.of_right
        if max(step.of_left, step.of_right) <= self.most:
            return float(self._inner[i, j, step.of_left, step.of_right])
        if (step.left, step.right) == (0, 0):
            return float(self._heads[i, j])
        if (i, j) == (self.left, self.right):
            return float(self._tails[step.left, step.right])
        return np.inf

    def cheapest(self) -> tuple[float, tuple[Step, ...]]:
        """The least sum of seconds, and the steps of the way that costs it."""
        n, m, most = self.left, self.right, self.most
        # Padded, so that all places have as many before them; read backwards, as steps count.
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
    """For each pair the seconds of both at once, with the best division of the lanes.

    Parameters
    ----------
    left, right
        Of each one the seconds on 1, 2, ... lanes, of at least two.
    """
    lanes = left.shape[1]
    divisions = (
        np.maximum(left[:, None, of_left - 1], right[None, :, lanes - of_left - 1])
        for of_left in range(1, lanes)
    )
    return np.minimum.reduce(list(divisions))


def _sums(seconds: Seconds) -> Seconds:
    """Of the first 0, 1, 2, ... stages."""
    return np.concatenate([np.zeros((1, seconds.shape[1])), np.cumsum(seconds, axis=0)])
