"""Weights that come into the second-level cache while those before them are multiplied."""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil
from typing import Any, Protocol

import tvm
from tvm import tirx

from runtime_ext.kernels.code import Code, Index, integer
from tvm_ios.program.program import LINE


class Fetch(Protocol):
    """Called with each step of a pass, see :meth:`Passes.fetch`."""

    def __call__(self, at: Index, step: int) -> None:
        """Write what the step fetches."""


@dataclass(frozen=True, slots=True)
class Passes:
    """A run of weights is multiplied with data after data, and then the next run is.

    Each pass but the first finds the run in a cache. A processor does not foresee that another run
    follows the last pass, and would wait for memory in the first pass over it; so passes fetch
    shares of the next run. Nothing uses what is fetched in the last run.

    Attributes
    ----------
    weights
        The buffer of all runs, one after another.
    words
        Of 32 bits in a run: a number, or a pack of shorter ones.
    count
        How many passes there are; 0 if nothing is to be fetched.
    """

    weights: Any
    words: int
    count: int

    def fetch(self, code: Code, run: Index, nth: Index, at: Index, step: int) -> None:
        """Begin to read a share of the next run, while a step of a run is multiplied.

        Parameters
        ----------
        code
            Gets the statements.
        run, nth
            The numbers of the run and of the pass, which may have been counted from any one.
        at, step
            The first word that is multiplied, counted from the first run, and how many there are.
        """
        if not self.count:
            return
        # A share is a cache line a step, or more where there are few passes. If there are more
        # passes than shares they begin again, for a lane's first pass may be any.
        shares = min(self.count, max(1, step // LINE))
        share = tirx.floormod(integer(nth), shares) * (self.words // shares)
        done = tirx.floordiv(at - run * self.words, shares)
        ahead = code.bind("ahead", (run + 1) * self.words + share + done)
        elements = 32 // tvm.DataType(str(self.weights.ty.dtype)).bits
        for line in range(ceil(step / (LINE * shares))):
            code.fetch(self.weights, (ahead + line * LINE) * elements)
