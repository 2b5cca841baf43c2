"""The work of tiles on a cluster's engines, and its time where layers do not overlap."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import IntEnum


class Engine(IntEnum):
    """Engines that work at once: two movers of data, and two compute units of each core."""

    MEMORY = 0
    GLOBAL = 1
    MATRIX = 2
    VECTOR = 3


@dataclass(frozen=True, slots=True)
class TileWork:
    """Seconds that a tile of a layer keeps each engine busy."""

    #: To fetch its constants from memory, and to copy them from the global to the local buffer.
    weights: tuple[float, float]
    #: For its inputs and outputs, from and to memory, and the global buffer.
    loads: tuple[float, float]
    stores: tuple[float, float]
    #: Of the compute units.
    matrix: float
    vector: float
    #: The number of slices in which its constants come; one is used while the next one comes.
    slices: int = 1
    #: Bytes of the global and of the local buffer that its constants take.
    weight_bytes: tuple[int, int] = (0, 0)

    def on(self, engine: Engine) -> float:
        """Return the seconds of one engine."""
        if engine is Engine.MATRIX:
            return self.matrix
        if engine is Engine.VECTOR:
            return self.vector
        return self.weights[engine] + self.loads[engine] + self.stores[engine]

    def then(self, other: TileWork, times: int) -> TileWork:
        """Return the work of this tile and so many others as that of one tile."""
        pairs = [
            (mine[0] + times * its[0], mine[1] + times * its[1])
            for mine, its in (
                (self.weights, other.weights),
                (self.loads, other.loads),
                (self.stores, other.stores),
            )
        ]
        return TileWork(
            pairs[0],
            pairs[1],
            pairs[2],
            self.matrix + times * other.matrix,
            self.vector + times * other.vector,
            self.slices + times * other.slices,
            self.weight_bytes,
        )


@dataclass(frozen=True, slots=True)
class StepWork:
    """The work of the tiles of a run of layers.

    ``first`` and ``others`` hold a tile of each layer; the first tile may load weights that stay
    for the others. ``sources`` are earlier steps whose results it reads. ``overhead`` is the
    seconds before it, for the start of a kernel and for moves.
    """

    first: tuple[TileWork, ...]
    others: tuple[TileWork, ...]
    tiles: int
    sources: tuple[int, ...]
    overhead: float

    def total(self, engine: Engine) -> float:
        """Return the seconds of one engine for all tiles."""
        once = sum(work.on(engine) for work in self.first)
        return once + (self.tiles - 1) * sum(work.on(engine) for work in self.others)

    def several(self, begin: int, count: int) -> tuple[TileWork, ...]:
        """Return several tiles of each layer, or those that are left, as one."""
        times = min(count, self.tiles - begin) - 1
        works = zip(self.others if begin else self.first, self.others, strict=True)
        return tuple(work.then(other, times) if times else work for work, other in works)


def layer_by_layer(steps: Sequence[StepWork]) -> list[tuple[float, float]]:
    """Return the begin and end of each step, in seconds, if layers do not overlap.

    Weights are fetched before a layer. Consecutive tiles of one layer overlap: one is loaded while
    another is computed. Tiles of different layers do not overlap.
    """
    spans: list[tuple[float, float]] = []
    now = 0.0
    for step in steps:
        begin = now
        now += step.overhead
        if len(step.first) > 1:
            now += sum(step.total(engine) for engine in Engine)
        else:
            fetched = sum(work.weights[0] for work in step.first)
            fetched += (step.tiles - 1) * sum(work.weights[0] for work in step.others)
            busy = [step.total(engine) for engine in Engine]
            busy[0] -= fetched
            # The time of a pipeline of ``tiles`` equal items.
            now += fetched + max(busy) + (sum(busy) - max(busy)) / step.tiles
        spans.append((begin, now))
    return spans
