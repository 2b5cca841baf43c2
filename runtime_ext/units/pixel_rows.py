"""Merge the rows of images whose pixels are contiguous into one long row of pixels."""

from __future__ import annotations

from dataclasses import replace

from runtime_ext.kernels.expression import Access
from runtime_ext.kernels.spec import Contraction, Pointwise, Statement, accesses


def merge_rows(spec: Contraction) -> Contraction:
    """Merge all rows of a 1x1 convolution of whole images into one; return others unchanged."""
    window = spec.window
    plain = window.kernel == window.strides == (1, 1) and window.pads == (0, 0)
    height, width = window.output
    every_access = [spec.data, *accesses(spec.statements)]
    if (
        not plain
        or window.input != window.output
        or (width == 1 and height != 1)
        or not all(_rows_follow(a, height, width, spec.batch) for a in every_access)
    ):
        return spec
    pixels = (1, spec.batch * height * width)
    return replace(
        spec,
        batch=1,
        window=replace(window, input=pixels, output=pixels),
        data=_merged(spec.data),
        statements=tuple(s.mapped(_merged) for s in spec.statements),
    )


def merge_pixels(spec: Pointwise) -> Pointwise:
    """Merge element-wise work on whole tensors into one row of pixels, or even of channels."""
    batch, height, width = spec.grid
    every_access = accesses(spec.statements)
    if not all(_rows_follow(a, height, width, batch) for a in every_access):
        return spec
    pixels = batch * height * width
    statements = tuple(s.mapped(_merged) for s in spec.statements)
    if len(statements) == 1:
        (only,) = statements
        flat = all(
            a.strides[2:] == (only.count, 1) or a.strides[2:] == (0, 0) or pixels == 1
            for a in accesses(statements)
        )
        if flat:
            return Pointwise(
                spec.buffers,
                (1, 1, 1),
                (Statement(only.value, only.target, 0, only.count * pixels),),
            )
    return Pointwise(spec.buffers, (1, 1, pixels), statements)


def _rows_follow(at: Access, height: int, width: int, batch: int) -> bool:
    n, h, w, _ = at.strides
    return (height == 1 or h == w * width) and (batch == 1 or n == w * width * height)


def _merged(at: Access) -> Access:
    return Access(at.buffer, at.offset, (0, 0, at.strides[2], at.strides[3]))
