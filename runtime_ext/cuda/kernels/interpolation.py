"""Enlarging images by whole factors: a thread computes all results of one input value."""

from __future__ import annotations

from math import ceil
from typing import Any

from runtime_ext.cuda.kernels.statements import Pixel, fetch, pixel_at, store_statement
from runtime_ext.cuda.kernels.threads import THREADS, ThreadCode
from runtime_ext.kernels.code import Index
from runtime_ext.kernels.interpolator import Interpolator
from runtime_ext.kernels.spec import Interpolation, Statement
from runtime_ext.kernels.statements import divide


def interpolation(spec: Interpolation, buffers: list[Any]) -> Any:
    """Return the kernel of an interpolation."""
    height, width = spec.pixels
    pixels = spec.batch * height * width
    items = pixels * spec.channels
    code = ThreadCode(ceil(items / THREADS))
    item = code.bind("item", code.block * THREADS + code.thread)
    with code.branch(None if items % THREADS == 0 else item < items):
        pixel, channel = divide(code, "pixel", item, spec.channels, pixels)
        image, row, column = pixel_at(code, pixel, (spec.batch, height, width))
        _Interpolator(spec, buffers, code, image, row, column).channels(channel, 1)
    return code.kernel(buffers)


class _Interpolator(Interpolator):
    """The loads and stores of an interpolation as code of a GPU thread."""

    def read(self, at: Index, stride: int, lanes: int) -> Any:
        return fetch(self.buffers[self.spec.data.buffer], at)

    def store(
        self, statement: Statement, grid: Pixel, channel: Index, value: Any, lanes: int
    ) -> None:
        assert isinstance(self.code, ThreadCode)
        store_statement(self.code, self.buffers, statement, grid, channel, lambda _: value, 1)
