"""Fuse a kernel with the only reader of its result, tile by tile, through a cache."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from runtime_ext.ir_form import CHAIN
from runtime_ext.kernels.chain import Chain
from runtime_ext.kernels.cut import Blocking
from runtime_ext.kernels.expression import ACC
from runtime_ext.kernels.spec import Contraction, Pooling
from runtime_ext.units.attention_chain import attention
from runtime_ext.units.handing import handed_on, joined_buffers, renumbered
from runtime_ext.units.unit import PlannedKernel, UnitPlan
from tvm_ios.shapes.extent import is_open, symbols_in

#: The most bytes of a tile's intermediate result: of whole rows of all channels, and of blocks of
#: channels. It stays in a second-level cache of 512 KiB beside the input and the weights.
_ROWS, _BLOCKS = 64 * 1024, 112 * 1024
#: The fewest tiles of whole rows, if there are so many rows: they balance some lanes.
_TILES = 8
#: The fewest lanes of a vector: blocks of channels are no smaller.
_LANES = 8


def is_chain(function: Any) -> bool:
    """Return whether a Relax function is marked as a chain of units."""
    return bool(function.attrs and CHAIN in function.attrs)


def chained(plan: UnitPlan, rows: int | None = None) -> UnitPlan | None:
    """Return the CPU plan with fused chains instead of kernels; None if nothing can be fused.

    A tile has ``rows`` rows of pixels, or of queries, by default as many as fit a cache.
    """
    kernels = list(plan.kernels)
    gone: list[int] = []
    at = 0
    while at < len(kernels):
        joined = _windows(plan, kernels, at, rows) or attention(plan, kernels, at, rows)
        if joined is None:
            at += 1
            continue
        chain, count = joined
        within = {buffer for kernel in kernels[at : at + count] for buffer in kernel.buffers}
        gone += within - set(chain.buffers)
        kernels[at : at + count] = [chain]
    if not gone:
        return None
    first = len(plan.inputs) + len(plan.constants) + len(plan.outputs)
    kept = [n for n in range(first, first + len(plan.scratch)) if n not in gone]
    place = {n: n for n in range(first)} | {n: first + i for i, n in enumerate(kept)}
    return replace(
        plan,
        scratch=tuple(plan.scratch[n - first] for n in kept),
        kernels=tuple(
            replace(kernel, buffers=tuple(place[n] for n in kernel.buffers)) for kernel in kernels
        ),
    )


def _windows(
    plan: UnitPlan, kernels: Sequence[PlannedKernel], at: int, rows: int | None
) -> tuple[PlannedKernel, int] | None:
    """Fuse a pool and a product, in either order, that begin at ``at``; return the kernel and 2."""
    if at + 2 > len(kernels):
        return None
    one, other = kernels[at : at + 2]
    first, second = one.spec, other.spec
    window = next((s.window for s in (first, second) if isinstance(s, Pooling)), None)
    if window is None or symbols_in(window):
        # Only the number of images may be open.
        return None
    if isinstance(first, Pooling) and isinstance(second, Contraction):
        fits = _is_product_of(second, first.window.output, first.batch)
    elif isinstance(first, Contraction) and isinstance(second, Pooling):
        fits = _is_product_of(first, second.window.input, second.batch) and len(first.parts) == 1
    else:
        return None
    handed = handed_on(plan, kernels, (one, first), (other, second)) if fits else None
    if handed is None:
        return None
    buffers, shapes, number_of = joined_buffers((one, other), (handed,))
    chain = Chain(
        shapes,
        renumbered(first, one, number_of),
        renumbered(second, other, number_of),
        rows or _rows(first, second),
    )
    return PlannedKernel(chain, buffers), 2


def _is_product_of(spec: Contraction, pixels: tuple[int, int], batch: int) -> bool:
    """Return whether a contraction is one matrix product over all pixels, which are contiguous."""
    window, count = spec.window, batch * pixels[0] * pixels[1]
    return (
        isinstance(spec.blocking, Blocking)
        and window.kernel == (1, 1)
        and window.output == window.input == (1, count)
        and spec.batch == spec.groups == 1
        and spec.prologue == ACC
    )


def _rows(first: Pooling | Contraction, second: Pooling | Contraction) -> int:
    """Return the rows of pixels of a tile whose intermediate result fits a cache."""
    if isinstance(first, Pooling):
        (height, columns), batch = first.window.output, first.batch
        if is_open(batch):
            # All tiles are whole.
            most = max(1, _ROWS // (columns * first.channels * 4))
            return max(rows for rows in range(1, height + 1) if height % rows == 0 and rows <= most)
        lines = batch * height
        return max(1, min(lines // _TILES, _ROWS // (columns * first.channels * 4)))
    assert isinstance(second, Pooling)
    assert isinstance(first.blocking, Blocking)
    (height, width), lines = second.window.input, second.window.output[0]
    held = max(1, _BLOCKS // (width * first.blocking.vectors * _LANES * 4))
    if held >= height:
        return lines
    # Rows that two tiles read are computed for both: the fewest strips are best.
    reach = (second.window.kernel[0] - 1) * second.window.dilations[0] + 1
    rows = max(1, (held - reach) // second.window.strides[0] + 1)
    strips = -(-lines // rows)
    return -(-lines // strips)
