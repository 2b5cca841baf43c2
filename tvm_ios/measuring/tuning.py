"""Inputs and results of tuning a model's kernels, in either dialect."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

from tvm_ios.graph.op_graph import OpGraph

#: Called with trials done, the most trials that there can be, and the model's seconds as tuned and
#: by default.
TuningProgress = Callable[[int, int, float, float], None]


@dataclass(frozen=True)
class ModelToTune:
    """A model whose kernels are tuned."""

    name: str
    graph: OpGraph
    #: Units that a search may merge, each with its copies in equal blocks.
    merges: Mapping[tuple[int, ...], Sequence[tuple[int, ...]]]
    #: Returns the computation of a unit, or of merged units, as the dialect's tuner takes it.
    source: Callable[[tuple[int, ...]], Any]
    #: Measures all units one after another with default kernels, in seconds.
    sequential_latency: Callable[[], float]

    def named(self, units: tuple[int, ...]) -> str:
        """Return the name of the task of these units."""
        return "+".join(self.graph.operators[unit].name for unit in units)


@dataclass(frozen=True, slots=True)
class TuningLimits:
    """Limits at which tuning ends."""

    #: The most variants of each kernel that are timed, earlier runs included.
    trials: int = 64
    #: The time after which no further round begins.
    seconds: float = math.inf


class TuningTask(Protocol):
    """An operator that is tuned once for all its places in the model."""

    @property
    def name(self) -> str:
        """The name of the first unit that has it, or of merged units joined by ``+``."""
        ...

    @property
    def text(self) -> str:
        """A description of its computation, for people."""
        ...

    @property
    def flops(self) -> int:
        """The number of floating-point operations."""
        ...

    @property
    def weight(self) -> int:
        """The number of times that a run of the model computes it."""
        ...

    @property
    def merged(self) -> int:
        """The number of times that it could replace several units as one merged unit."""
        ...


@dataclass(frozen=True, slots=True)
class TunedKernel:
    """The times of a task's kernels.

    ``default`` is the seconds of the default kernel (None if never timed), ``best`` those of the
    fastest. ``trials`` counts all timed variants, ``new_trials`` those of this run.
    """

    task: TuningTask
    default: float | None
    best: float
    trials: int
    new_trials: int


@dataclass(frozen=True)
class TuningResult:
    """The result of tuning a model."""

    #: The model's name.
    model: str
    #: The tuning log.
    log: Path
    #: The log's kernels of the model, those of its own operators first.
    kernels: tuple[TunedKernel, ...]
    #: Seconds of all units one after another, with default kernels and with the log's best.
    default: float
    tuned: float
    #: The number of operators of the model for which the log has no kernel.
    missing: int
    #: The number of merge candidates that no trial was spent on.
    untouched: int
    #: The number of unfinished lines of a killed run that were removed from the log.
    mended: int
    #: The duration of tuning.
    seconds: float
    #: The number of trials that no machine of a fleet could time, by the reason.
    failed: Mapping[str, int] = field(default_factory=dict[str, int])
    #: A sentence on the part of the model that runs after its program and is not tuned.
    tail: str | None = None
