"""Prefetch the next weights into the second-level cache while the current ones are multiplied."""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil
from typing import Any, Protocol

import tvm
from tvm import tirx

from runtime_ext.kernels.code import Code, Index, integer
from tvm_ios.program.program import LINE


class Fetch(Protocol):
    """A prefetch, called with each step of a pass; see :meth:`Passes.fetch`."""

    def __call__(self, at: Index, step: int) -> None:
        """Write the step's prefetches."""


def fetch_nothing(at: Index, step: int) -> None:
    """Prefetch nothing: at open extents it has not paid off."""
    del at, step


@dataclass(frozen=True, slots=True)
class Passes:
    """Passes over runs of weights: each run is multiplied with all data before the next run.

    Each pass but the first finds the run in a cache. The hardware does not predict the jump to the
    next run, and the first pass over it would wait for memory; so passes prefetch shares of it.
    Prefetches in the last run are wasted. ``weights`` is the buffer of all runs, one after
    another; a run has ``words`` words of 32 bits; ``count`` is the number of passes, 0 to prefetch
    nothing.
    """

    weights: Any
    words: int
    count: int

    def fetch(self, code: Code, run: Index, nth: Index, at: Index, step: int) -> None:
        """Prefetch a share of the next run, during one step of a run's multiplication.

        ``run`` is the run's number, ``nth`` that of the pass, counted from any one. The step
        multiplies ``step`` words from word ``at``, counted from the first run.
        """
        if not self.count:
            return
        # A share is a cache line a step, or more if there are few passes. If there are more passes
        # than shares, shares begin again, because a lane may begin with any pass.
        shares = min(self.count, max(1, step // LINE))
        share = tirx.floormod(integer(nth), shares) * (self.words // shares)
        done = tirx.floordiv(at - run * self.words, shares)
        ahead = code.bind("ahead", (run + 1) * self.words + share + done)
        elements = 32 // tvm.DataType(str(self.weights.ty.dtype)).bits
        for line in range(ceil(step / (LINE * shares))):
            code.fetch(self.weights, (ahead + line * LINE) * elements)
