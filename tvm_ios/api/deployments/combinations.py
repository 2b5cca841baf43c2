"""What the programs of a deployment are made for."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import product
from pathlib import Path

from tvm_ios.models.source import ModelSource


@dataclass(frozen=True)
class Recipe:
    """How a program is made for a machine that is not here.

    Attributes
    ----------
    path
        The file that says so: a log, a schedule or results.
    device
        The machine.
    arch
        Its instruction-set level, or its architecture of GPUs.
    lanes
        Threads, or streams.
    schedule
        The schedule; None if a search by the log is to find one.
    policy, latency_ms
        Whose schedule it is, and the milliseconds of a run there, where results say so.
    batch
        The batch that it is for, where that is said.
    database
        Tuned kernels for this machine.
    """

    path: Path
    device: str
    arch: str
    lanes: int
    schedule: Path | None = None
    policy: str | None = None
    latency_ms: float | None = None
    batch: int | None = None
    database: Path | None = None


@dataclass(frozen=True)
class Combination:
    """What one program of a deployment is made for.

    Attributes
    ----------
    source
        The model with its batch and shapes.
    arch
        An instruction-set level, or an architecture of GPUs; None for this machine.
    lanes
        Threads, or streams.
    recipe
        What was recorded or scheduled elsewhere, by which it is made.
    """

    source: ModelSource
    arch: str | None
    lanes: int
    recipe: Recipe | None = None

    def __str__(self) -> str:
        shapes = [f"{n}:{'x'.join(map(str, s))}" for n, s in self.source.shapes.items()]
        batch = [] if self.source.batch is None else [f"batch {self.source.batch}"]
        arch = self.arch or "this machine"
        return ", ".join([*batch, *shapes, f"{arch} with {self.lanes} lanes"])


def combinations(
    sources: Iterable[ModelSource], archs: Sequence[str | None], lanes: Sequence[int]
) -> list[Combination]:
    """All combinations, those of one source side by side, and of most lanes first.

    TVM counts its threads once: they can only become fewer.
    """
    return [Combination(*each) for each in product(sources, archs, sorted(lanes, reverse=True))]


def combinations_of(recipes: Sequence[Recipe], sources: Iterable[ModelSource]) -> list[Combination]:
    """What programs recipes may make of a model in several shapes.

    Where no batch is asked for, it is those that recipes name. Of several combinations that differ
    in their recipes alone the first is meant that can be made.
    """
    named = sorted({recipe.batch for recipe in recipes if recipe.batch is not None})
    return [
        Combination(replace(source, batch=batch), recipe.arch, recipe.lanes, recipe)
        for source in sources
        for batch in ([source.batch] if source.batch is not None else named or [None])
        for recipe in recipes
        if recipe.batch in (None, batch)
    ]
