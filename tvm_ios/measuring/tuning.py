"""What tuning a model's kernels takes and gives, in either dialect."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

from tvm_ios.graph.op_graph import OpGraph

#: Called with trials done, all that there will be at most, and the model's seconds as tuned and
#: by default.
TuningProgress = Callable[[int, int, float, float], None]


@dataclass(frozen=True)
class ModelToTune:
    """A model whose kernels are tuned.

    Attributes
    ----------
    name
        The model's name.
    graph
        The graph of units.
    merges
        Units that a search may merge, and what stands for them in each of equal blocks.
    source
        What a unit, or merged units, computes, as the dialect's tuner takes it.
    sequential_latency
        Measures all units one after another with default kernels, in seconds.
    """

    name: str
    graph: OpGraph
    merges: Mapping[tuple[int, ...], Sequence[tuple[int, ...]]]
    source: Callable[[tuple[int, ...]], Any]
    sequential_latency: Callable[[], float]

    def named(self, units: tuple[int, ...]) -> str:
        """What a task of these units is called."""
        return "+".join(self.graph.operators[unit].name for unit in units)


@dataclass(frozen=True, slots=True)
class TuningLimits:
    """When tuning ends.

    Attributes
    ----------
    trials
        Variants of each kernel that are timed, at most, earlier runs included.
    seconds
        The time after which no further round begins.
    """

    trials: int = 64
    seconds: float = math.inf


class TuningTask(Protocol):
    """An operator that is tuned, once for all places where the model has it."""

    @property
    def name(self) -> str:
        """The name of the first unit that has it, or of merged units joined by ``+``."""
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


@dataclass(frozen=True, slots=True)
class TunedKernel:
    """How fast the kernels of a task are.

    Attributes
    ----------
    task
        What is tuned.
    default
        Seconds of the kernel by default; None where it was never timed.
    best
        Seconds of the fastest.
    trials
        Variants that were timed, now and before.
    new_trials
        Those of them that were timed now.
    """

    task: TuningTask
    default: float | None
    best: float
    trials: int
    new_trials: int


@dataclass(frozen=True)
class TuningResult:
    """What tuning did.

    Attributes
    ----------
    model
        The model's name.
    log
        The tuning log.
    kernels
        The log's kernels of the model, those of its own operators first.
    default, tuned
        Seconds of all units one after another, with default kernels and with the log's best.
    missing
        Operators of the model that the log has no kernel of.
    untouched
        Merge candidates that no trial was spent on.
    mended
        Unfinished lines of a killed run that were removed from the log.
    seconds
        How long tuning took.
    failed
        Trials that no machine of a fleet could time: how many, by the reason.
    tail
        What of the model runs after its program, and is not tuned, in a sentence.
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
    failed: Mapping[str, int] = field(default_factory=dict[str, int])
    tail: str | None = None
