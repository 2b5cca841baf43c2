"""Resize images."""

from __future__ import annotations

from collections.abc import Callable
from math import ceil
from typing import Any

from runtime_ext.cuda.kernels.statements import Pixel, fetch, pixel_at, store_statement
from runtime_ext.cuda.kernels.threads import THREADS, ThreadCode
from runtime_ext.kernels.code import Index
from runtime_ext.kernels.interpolator import Interpolator, Resampler
from runtime_ext.kernels.spec import Interpolation, Resampling, Statement
from runtime_ext.kernels.statements import divide


def interpolation(spec: Interpolation, buffers: list[Any]) -> Any:
    """Return the kernel of an interpolation, whose threads each compute all results of an input."""

    def write(code: ThreadCode, image: Index, row: Index, column: Index, channel: Index) -> None:
        _Interpolator(spec, buffers, code, image, row, column).channels(channel, 1)

    return _kernel(spec, buffers, write)


def resampling(spec: Resampling, buffers: list[Any]) -> Any:
    """Return the kernel of a resampling, whose threads each compute a result."""

    def write(code: ThreadCode, image: Index, row: Index, column: Index, channel: Index) -> None:
        writer = _Resampler(spec, buffers, code, image, row)
        writer.channels(writer.columns(column), column, channel, 1)

    return _kernel(spec, buffers, write)


def _kernel(
    spec: Interpolation | Resampling, buffers: list[Any], write: Callable[..., None]
) -> Any:
    height, width = spec.pixels
    pixels = spec.batch * height * width
    items = pixels * spec.channels
    code = ThreadCode(ceil(items / THREADS))
    item = code.bind("item", code.block * THREADS + code.thread)
    with code.branch(None if items % THREADS == 0 else item < items):
        pixel, channel = divide(code, "pixel", item, spec.channels, pixels)
        write(code, *pixel_at(code, pixel, (spec.batch, height, width)), channel)
    return code.kernel(buffers)


class _OfThread:
    """The loads and stores of a resized image as code of a GPU thread."""

    spec: Any
    buffers: list[Any]
    code: Any

    def read(self, at: Index, stride: int, lanes: int) -> Any:
        return fetch(self.buffers[self.spec.data.buffer], at)

    def store(
        self, statement: Statement, grid: Pixel, channel: Index, value: Any, lanes: int
    ) -> None:
        store_statement(self.code, self.buffers, statement, grid, channel, lambda _: value, 1)


class _Interpolator(_OfThread, Interpolator):
    pass


class _Resampler(_OfThread, Resampler):
    pass
