"""The space of blockings of a contraction on a CPU with vectors: register tiles, loop orders."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import product
from math import ceil, log2, prod
from typing import Any

import numpy as np
from tvm import s_tir

from runtime_ext.cpu.kernels.blocking import UNROLLED, choose_blocking, most_pixels, spare_registers
from runtime_ext.cpu.kernels.contraction import plan_tiles
from runtime_ext.isa.isa import Isa, Products
from runtime_ext.kernels.cut import Blocking
from runtime_ext.kernels.spec import Contraction
from runtime_ext.tuning_log.space import Notes, note
from runtime_ext.tuning_log.workload import contraction_workload
from tvm_ios.files.array_files import Array

#: Most input channels of a loop step: the code of more no longer fits the cache of decoded
#: instructions.
_MOST_UNROLLED = 8
#: Multiply-adds in flight that a register tile needs to hide their latency.
_IN_FLIGHT = 4
_TILES = (12, 24, 48, 96, 192)


@dataclass(frozen=True, slots=True)
class BlockingChoices:
    """The blockings that share the register tile's width and the order of loops.

    An ``unroll`` of 0 stands for the default, a rule of thumb.
    """

    vectors: int
    blocks_outer: bool
    pixels: tuple[int, ...]
    unroll: tuple[int, ...]
    tiles: tuple[int, ...]


@dataclass(frozen=True)
class VectorSpace:
    """A search space of blockings; see :class:`runtime_ext.tuning_log.space.Space`."""

    isa: Isa

    def of_products(self, products: Products) -> VectorSpace:
        """Return the space of contractions by instructions that multiply packs."""
        return VectorSpace(replace(self.isa, pixels=products.pixels))

    def blocking(self, spec: Contraction) -> Blocking:
        """Choose the blocking of a contraction by rules of thumb."""
        return choose_blocking(spec, self.isa)

    def width(self, blocking: Blocking) -> int:
        """Return the output channels of a block of packed weights: those of its vectors."""
        return blocking.vectors * self.isa.lanes

    def recurrent_width(self) -> int:
        """Return the elements of a state in a block of a recurrence's packed weights."""
        return self.isa.lanes

    def workload(self, spec: Contraction) -> Any:
        """Return the contraction in float32 as a TIR workload."""
        return contraction_workload(spec)

    def choices(self, spec: Contraction) -> tuple[BlockingChoices, ...]:
        """Return all blockings worth measuring, in groups; the one of ``spec`` is among them."""
        blocking = self.explicit(spec)
        channels, width = spec.channels, spec.window.output[1]
        widest = max(
            blocking.vectors, min(8 if width == 1 else 6, ceil(max(spec.parts) / self.isa.lanes))
        )
        unroll = {0}
        if channels > UNROLLED:
            unroll |= {u for u in range(1, _MOST_UNROLLED + 1) if channels % u == 0}
        one_row = spec.batch * spec.window.output[0] == 1 < width
        tiles = tuple(sorted({*_TILES, blocking.tiles})) if one_row else (blocking.tiles,)
        choices: list[BlockingChoices] = []
        for vectors in range(1, widest + 1):
            most = min(width, most_pixels(vectors, self.isa))
            pixels = {p for p in range(1, most + 1) if p * vectors >= min(_IN_FLIGHT, width)}
            if vectors == blocking.vectors:
                pixels.add(blocking.pixels)
            blocks = sum(ceil(part / (vectors * self.isa.lanes)) for part in spec.parts)
            for outer in (False, True) if blocks > 1 else (False,):
                if pixels:
                    choices.append(
                        BlockingChoices(
                            vectors, outer, tuple(sorted(pixels)), tuple(sorted(unroll)), tiles
                        )
                    )
        return tuple(choices)

    def points(self, spec: Contraction) -> tuple[Blocking, ...]:
        """Return the blockings of the space that give different code, the default first."""
        point_by_cut: dict[object, Blocking] = {}
        every = (
            Blocking(pixels, choices.vectors, unroll or None, tiles, choices.blocks_outer)
            for choices in self.choices(spec)
            for pixels, unroll, tiles in product(choices.pixels, choices.unroll, choices.tiles)
        )
        for point in (self.explicit(spec), *every):
            plan = plan_tiles(replace(spec, blocking=point), self.isa)
            cut = (point.pixels, point.vectors, point.unroll, plan.strip, plan.blocks_outer)
            point_by_cut.setdefault(cut, point)
        return tuple(point_by_cut.values())

    def holds(self, spec: Contraction, point: Blocking) -> bool:
        """Return whether a blocking, e.g. one read from a file, is a point of the space."""
        return any(
            (choices.vectors, choices.blocks_outer) == (point.vectors, point.blocks_outer)
            and point.pixels in choices.pixels
            and (point.unroll or 0) in choices.unroll
            and point.tiles in choices.tiles
            for choices in self.choices(spec)
        )

    def explicit(self, spec: Contraction) -> Blocking:
        """Return the contraction's blocking with its order of loops filled in."""
        plan = plan_tiles(spec, self.isa)
        assert isinstance(spec.blocking, Blocking)
        return replace(spec.blocking, blocks_outer=plan.blocks_outer and plan.blocks > 1)

    def point(self, notes: Notes) -> Blocking:
        """Return the blocking that is recorded in a trace's notes."""
        pixels, vectors, unroll, tiles, outer = notes
        return Blocking(pixels, vectors, unroll or None, tiles, bool(outer))

    def schedule(self, spec: Contraction, workload: Any, point: Blocking) -> s_tir.Schedule:
        """Return the TIR schedule of the workload at one point of the space."""
        (choices,) = (
            c
            for c in self.choices(spec)
            if (c.vectors, c.blocks_outer) == (point.vectors, point.blocks_outer)
        )
        return sampled(s_tir.Schedule(workload), choices, self.isa.lanes, point)

    def features(self, spec: Contraction, points: Sequence[Blocking]) -> Array:
        """Return the features of each blocking for a cost model: float32, a row for each."""
        rows = [blocking_features(spec, self.isa, blocking) for blocking in points]
        return np.array(rows, np.float32)


def sampled(
    schedule: s_tir.Schedule, choices: BlockingChoices, lanes: int, point: Blocking | None = None
) -> s_tir.Schedule:
    """Split and order the workload's loops by sampled choices, or by those of ``point``."""

    def sample(candidates: Sequence[int], value: int | None) -> Any:
        decision = None if value is None else candidates.index(value)
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


def blocking_features(spec: Contraction, isa: Isa, blocking: Blocking) -> list[float]:
    """Return sizes of the contraction and of its tiles, and how these fit registers and caches."""
    plan = plan_tiles(replace(spec, blocking=blocking), isa)
    window, width = spec.window, spec.window.output[1]
    pixels, vectors = blocking.pixels, blocking.vectors
    block = vectors * isa.lanes
    last = width % pixels
    depth = spec.channels * prod(window.kernel)
    stride = abs(spec.data.strides[2]) * window.strides[1] * 4
    padded = plan.blocks * block
    unroll = blocking.unroll or 0
    return [
        log2(spec.channels),
        log2(sum(spec.parts)),
        log2(width),
        log2(plan.rows),
        float(prod(window.kernel)),
        float(window.strides[1]),
        log2(stride + 1),
        float(len(spec.parts)),
        float(pixels),
        float(vectors),
        float(pixels * vectors),
        (pixels + vectors) / (pixels * vectors),
        float(spare_registers(blocking, isa)),
        float(unroll),
        float(unroll * pixels * vectors * window.kernel[1]),
        float(plan.blocks_outer),
        float(plan.blocks),
        log2(plan.tiles),
        float(plan.strip),
        float(last),
        ceil(width / pixels) * pixels / width,
        padded / sum(spec.parts),
        log2(depth * block * 4),
        log2(depth * padded * 4),
        # Pixels of one tile whose cache lines fall into the same set of a 4 KiB way.
        pixels * stride / 4096 if stride % 64 == 0 else 0.0,
    ]
