"""Run solvers of other languages so that Ctrl-C ends them."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor, wait
from typing import TypeVar

T = TypeVar("T")

#: Seconds after which an interrupted solver is told to stop again: CP-SAT ignores this until it
#: runs.
_STOP_SECONDS = 0.01


def run_interruptibly(solve: Callable[[], T], stop: Callable[[], object]) -> T:
    """Return the result of a solver, which ``stop`` ends where the main thread is interrupted."""
    # Signals are raised in the main thread, which therefore must not be the one that solves.
    with ThreadPoolExecutor(1) as thread:
        solving = thread.submit(solve)
        try:
            return solving.result()
        except BaseException:
            while not solving.done():
                stop()
                wait([solving], _STOP_SECONDS)
            raise
