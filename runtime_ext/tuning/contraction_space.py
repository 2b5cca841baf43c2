"""The design space of a contraction: register tiles and loop orders, as MetaSchedule traces.

A point of the space is a :class:`Blocking`. Its trace cuts the loops of the contraction's
workload accordingly, so that TVM alone can apply it too, and notes the blocking on the block
``sum``. What runs here is the hand-written kernel with this blocking, which :func:`blocking_of`
reads back from a trace.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import product
from math import ceil
from typing import Any, Protocol

from tvm import s_tir

from runtime_ext.cpu.blocking import UNROLLED
from runtime_ext.cpu.contraction import plan_tiles
from runtime_ext.cpu.vector_unit import VectorUnit
from runtime_ext.kernels.spec import Blocking, Contraction
from runtime_ext.tuning.contraction_workload import contraction_workload
from runtime_ext.units.draft import Cutter

#: Input channels a loop step: the code of more no longer fits the cache of decoded instructions.
_MOST_UNROLLED = 8
#: Multiply-adds that a register tile needs to hide their latency.
_IN_FLIGHT = 4
_TILES = (12, 24, 48, 96, 192)
_NOTES = ("ios.pixels", "ios.vectors", "ios.unroll", "ios.tiles", "ios.blocks_outer")


class Space(Cutter, Protocol):
    """The ways in which a device may cut contractions; the cutter's own is one of them."""

    def workload(self, spec: Contraction) -> Any:
        """What a tuning log knows a contraction by; see :func:`contraction_workload`."""
        ...

    def points(self, spec: Contraction) -> tuple[Blocking, ...]:
        """The blockings that are cut differently, the default first."""
        ...

    def holds(self, spec: Contraction, point: Blocking) -> bool:
        """Whether a blocking, e.g. one that a file names, is a point of the space."""
        ...

    def explicit(self, spec: Contraction) -> Blocking:
        """The blocking of a contraction as points write it."""
        ...

    def schedule(self, spec: Contraction, workload: Any, point: Blocking) -> s_tir.Schedule:
        """The workload's schedule at a point."""
        ...


@dataclass(frozen=True)
class VectorSpace:
    """The space of a CPU with vectors; see :class:`Space`."""

    unit: VectorUnit

    @property
    def lanes(self) -> int:
        """Channels of a vector."""
        return self.unit.lanes

    def blocking(self, spec: Contraction) -> Blocking:
        """By rules of thumb."""
        return self.unit.blocking(spec)

    def workload(self, spec: Contraction) -> Any:
        """Of float32."""
        return contraction_workload(spec)

    def points(self, spec: Contraction) -> tuple[Blocking, ...]:
        """See :func:`points`."""
        return points(spec, self.unit)

    def holds(self, spec: Contraction, point: Blocking) -> bool:
        """See :func:`in_space`."""
        return in_space(spec, self.unit, point)

    def explicit(self, spec: Contraction) -> Blocking:
        """See :func:`explicit`."""
        return explicit(spec, self.unit)

    def schedule(self, spec: Contraction, workload: Any, point: Blocking) -> s_tir.Schedule:
        """See :func:`scheduled`."""
        return scheduled(spec, self.unit, workload, point)


@dataclass(frozen=True, slots=True)
class Choices:
    """The points that share the width of the register tile and the order of the loops.

    An ``unroll`` of 0 stands for the rule of thumb.
    """

    vectors: int
    blocks_outer: bool
    pixels: tuple[int, ...]
    unroll: tuple[int, ...]
    tiles: tuple[int, ...]


def design_space(spec: Contraction, unit: VectorUnit) -> tuple[Choices, ...]:
    """Every blocking worth measuring, among them the one that ``spec`` has."""
    own = explicit(spec, unit)
    channels, width = spec.channels, spec.window.output[1]
    widest = max(own.vectors, min(8 if width == 1 else 6, ceil(max(spec.parts) / unit.lanes)))
    unroll = {0}
    if channels > UNROLLED:
        unroll |= {u for u in range(1, _MOST_UNROLLED + 1) if channels % u == 0}
    one_row = spec.batch * spec.window.output[0] == 1 < width
    tiles = tuple(sorted({*_TILES, own.tiles})) if one_row else (own.tiles,)
    spaces: list[Choices] = []
    for vectors in range(1, widest + 1):
        most = min(width, (unit.registers - 1 - vectors) // vectors)
        pixels = {p for p in range(1, most + 1) if p * vectors >= min(_IN_FLIGHT, width)}
        if vectors == own.vectors:
            pixels.add(own.pixels)
        blocks = sum(ceil(part / (vectors * unit.lanes)) for part in spec.parts)
        for outer in (False, True) if blocks > 1 else (False,):
            if pixels:
                spaces.append(
                    Choices(vectors, outer, tuple(sorted(pixels)), tuple(sorted(unroll)), tiles)
                )
    return tuple(spaces)


def points(spec: Contraction, unit: VectorUnit) -> tuple[Blocking, ...]:
    """The blockings of the space that are cut differently, the default first."""
    found: dict[object, Blocking] = {}
    every = (
        Blocking(pixels, choices.vectors, unroll or None, tiles, choices.blocks_outer)
        for choices in design_space(spec, unit)
        for pixels, unroll, tiles in product(choices.pixels, choices.unroll, choices.tiles)
    )
    for point in (explicit(spec, unit), *every):
        plan = plan_tiles(replace(spec, blocking=point), unit)
        cut = (point.pixels, point.vectors, point.unroll, plan.strip, plan.blocks_outer)
        found.setdefault(cut, point)
    return tuple(found.values())


def in_space(spec: Contraction, unit: VectorUnit, point: Blocking) -> bool:
    """Whether a blocking, e.g. one that a file names, is a point of the space."""
    return any(
        (choices.vectors, choices.blocks_outer) == (point.vectors, point.blocks_outer)
        and point.pixels in choices.pixels
        and (point.unroll or 0) in choices.unroll
        and point.tiles in choices.tiles
        for choices in design_space(spec, unit)
    )


def explicit(spec: Contraction, unit: VectorUnit) -> Blocking:
    """The blocking of a contraction with its order of loops told."""
    plan = plan_tiles(spec, unit)
    return replace(spec.blocking, blocks_outer=plan.blocks_outer and plan.blocks > 1)


def blocked(spec: Contraction, blocking: Blocking, unit: Cutter) -> Contraction:
    """The contraction with another blocking, and weights packed for it."""
    width = blocking.vectors * unit.lanes
    blocks = sum(ceil(part / width) for part in spec.parts)
    buffers = list(spec.buffers)
    buffers[spec.weight] = (blocks, *spec.window.kernel, spec.channels, width)
    return replace(spec, blocking=blocking, buffers=tuple(buffers))


def scheduled(spec: Contraction, unit: VectorUnit, workload: Any, point: Blocking) -> Any:
    """The workload's schedule at one point of the space."""
    (choices,) = (
        c
        for c in design_space(spec, unit)
        if (c.vectors, c.blocks_outer) == (point.vectors, point.blocks_outer)
    )
    return sampled(s_tir.Schedule(workload), choices, unit.lanes, point)


def sampled(
    schedule: s_tir.Schedule, choices: Choices, lanes: int, point: Blocking | None = None
) -> s_tir.Schedule:
    """Cut the workload's loops by sampled choices, or as a given point says."""

    def sample(candidates: Sequence[int], wanted: int | None) -> Any:
        decision = None if wanted is None else candidates.index(wanted)
        share = 1.0 / len(candidates)
        return schedule.sample_categorical(
            list(candidates), [share] * len(candidates), decision=decision
        )

    pixels = sample(choices.pixels, point and point.pixels)
    unroll = sample(choices.unroll, point and (point.unroll or 0))
    tiles = sample(choices.tiles, point and point.tiles)
    block = schedule.get_sblock("sum")
    note(schedule, block, (pixels, choices.vectors, unroll, tiles, int(choices.blocks_outer)))
    n, y, x, c, ky, kx, ci = schedule.get_loops(block)
    strip, pixel = schedule.split(x, [None, pixels])
    part, vector, lane = schedule.split(c, [None, choices.vectors, lanes])
    outer = (part, n, y, strip) if choices.blocks_outer else (n, y, strip, part)
    schedule.reorder(*outer, ky, kx, ci, pixel, vector, lane)
    schedule.parallel(schedule.fuse(*outer))
    for loop in (pixel, vector):
        schedule.unroll(loop)
    schedule.vectorize(lane)
    schedule.decompose_reduction(block, ky)
    return schedule


def note(schedule: s_tir.Schedule, block: Any, values: Sequence[Any]) -> None:
    """Write a blocking's fields, numbers or what was sampled, on a block of a schedule."""
    for name, value in zip(_NOTES, values, strict=True):
        schedule.annotate(block, name, value)


def blocking_of(trace: Any) -> Blocking | None:
    """The blocking that a trace, in MetaSchedule's JSON, notes if any; it is not applied."""
    steps, decisions = trace
    # Of steps that are none of ours a choice may be anything: the extents of a tile, say.
    decided = {int(step): choice for step, choice in decisions}
    drawn: dict[Any, int] = {}
    notes: dict[str, int] = {}
    for number, (kind, inputs, attributes, outputs) in enumerate(steps):
        if kind == "SampleCategorical":
            drawn[outputs[0]] = int(attributes[0][int(decided[number])])
        elif kind == "Annotate" and attributes[0] in _NOTES:
            given = inputs[1]
            notes[attributes[0]] = drawn[given] if isinstance(given, str) else int(given)
    if len(notes) < len(_NOTES):
        return None
    pixels, vectors, unroll, tiles, outer = (notes[note] for note in _NOTES)
    return Blocking(pixels, vectors, unroll or None, tiles, bool(outer))
