"""Pooling and depthwise convolutions: a thread has a few neighbouring channels and pixels."""

from __future__ import annotations

from math import ceil, inf
from typing import Any

from tvm import tirx

from runtime_ext.cuda.kernels.contraction_shape import has_borders
from runtime_ext.cuda.kernels.statements import (
    WIDE,
    evaluate,
    fetch,
    fetch_wide,
    is_wide,
    statement_width,
    store_statement,
)
from runtime_ext.cuda.kernels.threads import THREADS, ThreadCode
from runtime_ext.kernels.code import Index, constant, load
from runtime_ext.kernels.expression import ACC
from runtime_ext.kernels.spec import Pooling
from runtime_ext.kernels.statements import divide

#: Kernel rows and columns that are written out; larger windows become loops.
_WRITTEN_OUT = 49
#: Neighbouring pixels of a row that a thread may have, and blocks below which it has fewer.
_PIXELS = (4, 2, 1)


def pooling(spec: Pooling, buffers: list[Any], blocks: int) -> Any:
    """Return the kernel of a pooling or depthwise convolution.

    ``blocks`` keep the GPU busy; threads get several pixels or channels only beyond that.
    """
    width, pixels = _thread_tile(spec, blocks)
    return _Writer(spec, buffers, width, pixels).kernel()


def _thread_tile(spec: Pooling, blocks: int) -> tuple[int, int]:
    """Return the channels and pixels that a thread computes."""
    widest = WIDE if spec.channels % WIDE == 0 and _aligned(spec) else 1
    choices = [(widest, p) for p in _PIXELS] + [(1, 1)]
    return next((c for c in choices if _items(spec, *c) >= blocks * THREADS), choices[-1])


def _aligned(spec: Pooling) -> bool:
    one = spec.data.strides[3] == 1 and is_wide(spec.data)
    return one and all(statement_width(s) == WIDE for s in spec.statements)


def _items(spec: Pooling, width: int, pixels: int) -> int:
    height, across = spec.window.output
    return spec.batch * height * ceil(across / pixels) * (spec.channels // width)


class _Writer:
    def __init__(self, spec: Pooling, buffers: list[Any], width: int, pixels: int) -> None:
        self.spec, self.buffers = spec, buffers
        self.width, self.pixels = width, pixels
        self.items = _items(spec, width, pixels)
        self.code = ThreadCode(ceil(self.items / THREADS))
        self.bordered = has_borders(spec.window)

    def kernel(self) -> Any:
        """Return the whole kernel."""
        spec, code = self.spec, self.code
        height, across = spec.window.output
        strips = ceil(across / self.pixels)
        item = code.bind("item", code.block * THREADS + code.thread)
        with code.branch(None if self.items % THREADS == 0 else item < self.items):
            groups = spec.channels // self.width
            strip, group = divide(code, "strip", item, groups, self.items // groups)
            line, part = divide(code, "line", strip, strips, spec.batch * height)
            image, row = divide(code, "image", line, height, spec.batch)
            channel = code.bind("channel", group * self.width)
            first = code.bind("first", part * self.pixels)
            self._pixels(image, row, first, channel)
        return code.kernel(self.buffers)

    def _pixels(self, image: Index, row: Index, first: Index, channel: Index) -> None:
        spec, code = self.spec, self.code
        count = self.pixels * self.width
        acc = code.registers("acc", count)
        with code.unrolled("i", count) as i:
            start = -inf if spec.kind == "max" else 0.0
            code.store(acc, i, constant(start, 1), 1)
        seen = code.registers("seen", self.pixels) if spec.kind == "mean" else None
        if seen is not None:
            with code.unrolled("p", self.pixels) as p:
                code.store(seen, p, constant(0.0, 1), 1)
        rows, columns = spec.window.kernel
        loop = code.unrolled if rows * columns <= _WRITTEN_OUT else self._loop
        with loop("ky", rows) as ky, loop("kx", columns) as kx:
            self._tap(image, row, first, channel, ky, kx, acc, seen)
        across = spec.window.output[1]
        with code.unrolled("p", self.pixels) as p:
            x = code.bind("x", first + p)
            with code.branch(None if across % self.pixels == 0 else x < across):

                def value(j: Index, p: Index = p) -> Any:
                    result = load(acc, p * self.width + j, 1)
                    if seen is not None:
                        return result / tirx.max(load(seen, p, 1), constant(1.0, 1))
                    return result

                for statement in spec.statements:
                    store_statement(
                        code, self.buffers, statement, (image, row, x), channel, value, self.width
                    )

    def _loop(self, name: str, extent: int) -> Any:
        return self.code.loop(name, 0, extent)

    def _tap(
        self,
        image: Index,
        row: Index,
        first: Index,
        channel: Index,
        ky: Index,
        kx: Index,
        acc: Any,
        seen: Any,
    ) -> None:
        """Add one tap of the window to the sums of all pixels of the thread."""
        spec, code, window = self.spec, self.code, self.spec.window
        sn, sh, sw, sc = spec.data.strides
        y = code.bind("y", row * window.strides[0] + ky * window.dilations[0] - window.pads[0])
        weight = None
        if spec.weight is not None:
            at = code.bind("at", (ky * window.kernel[1] + kx) * spec.channels + channel)
            weight = fetch_wide(code, "w", self.buffers[spec.weight], at, self.width)
        with code.unrolled("p", self.pixels) as p:
            x = (first + p) * window.strides[1] + kx * window.dilations[1] - window.pads[1]
            x = code.bind("x", x)
            tests = []
            if self.bordered:
                tests = [y >= 0, y < window.input[0], x >= 0, x < window.input[1]]
            elif window.output[1] % self.pixels:
                tests = [x < window.input[1]]
            with code.branch(tirx.all(*tests) if tests else None):
                at = spec.data.offset + image * sn + y * sh + x * sw + channel * sc
                data = self.buffers[spec.data.buffer]
                read = fetch_wide(code, "read", data, code.bind("at", at), self.width)
                with code.unrolled("j", self.width) as j:
                    value = fetch(read, j)
                    if spec.prologue != ACC:
                        value = evaluate(code, spec.prologue, value)
                    element = p * self.width + j
                    total = load(acc, element, 1)
                    if weight is not None:
                        updated = total + value * fetch(weight, j)
                    else:
                        updated = tirx.max(total, value) if spec.kind == "max" else total + value
                    code.store(acc, element, updated, 1)
                if seen is not None:
                    code.store(seen, p, load(seen, p, 1) + constant(1.0, 1), 1)
