"""The combinations of shapes, machine and lanes that a deployment's programs are made for."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import product
from pathlib import Path

from tvm_ios.models.source import ModelSource


@dataclass(frozen=True)
class Recipe:
    """Instructions to make a program for another machine, read from a file of that machine."""

    #: The file: a measurement log, a schedule or a bundle's results.
    path: Path
    #: The name of the machine.
    device: str
    #: Its instruction-set level (CPU) or its ``sm_`` architecture (GPU).
    arch: str
    #: Threads, or streams.
    lanes: int
    #: The schedule's file; None if a schedule is to be searched by the log.
    schedule: Path | None = None
    #: The schedule's policy and its milliseconds of a run on that machine, if results have them.
    policy: str | None = None
    latency_ms: float | None = None
    #: The batch size that the schedule is for, if known.
    batch: int | None = None
    #: The folder of tuned kernels for this machine.
    database: Path | None = None


@dataclass(frozen=True)
class Combination:
    """The model's shapes, the machine and the lanes that one program of a deployment is for.

    ``arch`` is an instruction-set level or a GPU's architecture, None for this machine. With a
    ``recipe`` the program is made by the records of another machine.
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
    """Return all combinations, grouped by source, with the most lanes first.

    TVM counts its threads once: in a process their number can only fall.
    """
    return [Combination(*each) for each in product(sources, archs, sorted(lanes, reverse=True))]


def combinations_of(recipes: Sequence[Recipe], sources: Iterable[ModelSource]) -> list[Combination]:
    """Return the combinations of a model's sources with the recipes of their batch.

    For a source without a batch, the batches that recipes name are used. If several combinations
    differ in their recipes alone, the first one that can be made is meant.
    """
    named = sorted({recipe.batch for recipe in recipes if recipe.batch is not None})
    return [
        Combination(replace(source, batch=batch), recipe.arch, recipe.lanes, recipe)
        for source in sources
        for batch in ([source.batch] if source.batch is not None else named or [None])
        for recipe in recipes
        if recipe.batch in (None, batch)
    ]
