"""Features of a contraction's blocking, from which a learned cost model predicts its time."""

from __future__ import annotations

from dataclasses import replace
from math import ceil, log2, prod

from runtime_ext.cpu.kernels.blocking import spare_registers
from runtime_ext.cpu.kernels.contraction import plan_tiles
from runtime_ext.isa.isa import Isa
from runtime_ext.kernels.cut import Blocking
from runtime_ext.kernels.spec import Contraction


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
