"""What tuning a model came to, in either dialect."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

#: Called with trials done, all of them, and the model's seconds as tuned and by default.
Tuning = Callable[[int, int, float, float], None]


class TuningTask(Protocol):
    """An operator that is tuned, once for all places where the model has it."""

    @property
    def name(self) -> str:
        """Of the first unit, or merged units joined by ``+``, that has it."""
        ...

    @property
    def text(self) -> str:
        """What it computes, for people."""
        ...

    @property
    def flops(self) -> int:
        """Floating-point operations."""
        ...

    @property
    def weight(self) -> int:
        """How many times a run of the model computes it."""
        ...

    @property
    def merged(self) -> int:
        """How many times it could compute several units at once in their stead."""
        ...


class TunedKernel(Protocol):
    """What is known of one; see :class:`runtime_ext.tuning.tuner.Tuned`."""

    @property
    def task(self) -> TuningTask:
        """What is tuned."""
        ...

    @property
    def default(self) -> float | None:
        """Seconds of TVM's default; None where it was never timed."""
        ...

    @property
    def best(self) -> float:
        """Seconds of the fastest."""
        ...

    @property
    def trials(self) -> int:
        """Variants that were timed, now and before."""
        ...

    @property
    def new_trials(self) -> int:
        """Those of them that were timed now."""
        ...


@dataclass(frozen=True)
class TuningResult:
    """What tuning did.

    Attributes
    ----------
    model
        Its name.
    log
        The tuning log.
    kernels
        What the log knows of the model, its own operators first.
    default, tuned
        Seconds of all units one after another, with default kernels and with the log's best.
    missing
        Operators of the model that the log has no kernel of.
    untouched
        Merge candidates that no trial was spent on.
    mended
        Unfinished lines of a killed run that were removed from the log.
    seconds
        That tuning took.
    """

    model: str
    log: Path
    kernels: tuple[TunedKernel, ...]
    default: float
    tuned: float
    missing: int
    untouched: int
    mended: int
    seconds: float
