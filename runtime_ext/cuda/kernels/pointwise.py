"""Element-wise operators, concatenations, copies and shuffles: a thread has a few neighbours."""

from __future__ import annotations

from math import ceil
from typing import Any

from tvm import tirx

from runtime_ext.cuda.kernels.statements import pixel_at, statement_width, store_statement
from runtime_ext.cuda.kernels.threads import THREADS, ThreadCode
from runtime_ext.kernels.code import Index
from runtime_ext.kernels.expression import Access
from runtime_ext.kernels.spec import Interleave, Pointwise, Statement
from runtime_ext.kernels.statements import divide


def pointwise(spec: Pointwise, buffers: list[Any]) -> Any:
    """Return the kernel of element-wise statements, each of which has its own blocks."""
    batch, height, width = spec.grid
    pixels = batch * height * width
    vectors = [statement_width(s) for s in spec.statements]
    items = [pixels * s.count // v for s, v in zip(spec.statements, vectors, strict=True)]
    blocks = [ceil(count / THREADS) for count in items]
    code = ThreadCode(sum(blocks))
    begin = 0
    for statement, vector, count, block_count in zip(
        spec.statements, vectors, items, blocks, strict=True
    ):
        inside = None
        if len(blocks) > 1:
            inside = tirx.all(code.block >= begin, code.block < begin + block_count)
        with code.branch(inside):
            item = code.bind("item", (code.block - begin) * THREADS + code.thread)
            with code.branch(None if count % THREADS == 0 else item < count):
                group = statement.count // vector
                pixel, channel = divide(code, "pixel", item, group, pixels)
                store_statement(
                    code,
                    buffers,
                    statement,
                    pixel_at(code, pixel, spec.grid),
                    channel * vector,
                    _no_anchor,
                    vector,
                )
        begin += block_count
    return code.kernel(buffers)


def interleave(spec: Interleave, buffers: list[Any]) -> Any:
    """Return the kernel of a channel shuffle: a thread moves a channel of every group."""
    batch, height, width = spec.grid
    pixels, groups = batch * height * width, len(spec.values)
    items = pixels * spec.count
    code = ThreadCode(ceil(items / THREADS))
    n, h, w, c = spec.target.strides
    item = code.bind("item", code.block * THREADS + code.thread)
    with code.branch(item < items):
        pixel, channel = divide(code, "pixel", item, spec.count, pixels)
        for group, value in enumerate(spec.values):
            to = Access(spec.target.buffer, spec.target.offset + group * c, (n, h, w, c * groups))
            statement = Statement(value, to, 0, spec.count)
            at = pixel_at(code, pixel, spec.grid)
            store_statement(code, buffers, statement, at, channel, _no_anchor, 1)
    return code.kernel(buffers)


def _no_anchor(_channel: Index) -> None:
    return None
