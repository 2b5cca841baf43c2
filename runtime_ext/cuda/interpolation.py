"""Images enlarged by whole factors: a thread has a channel of an input pixel and its results."""

from __future__ import annotations

from math import ceil
from typing import Any

from runtime_ext.cuda.pointwise import place
from runtime_ext.cuda.threads import THREADS, ThreadCode
from runtime_ext.kernels.interpolation import Interpolator
from runtime_ext.kernels.spec import Interpolation
from runtime_ext.kernels.statements import divide


def interpolation(spec: Interpolation, buffers: list[Any]) -> Any:
    """The kernel of an interpolation."""
    height, width = spec.pixels
    pixels = spec.batch * height * width
    items = pixels * spec.channels
    code = ThreadCode(ceil(items / THREADS))
    item = code.bind("item", code.block * THREADS + code.thread)
    with code.branch(None if items % THREADS == 0 else item < items):
        pixel, channel = divide(code, "pixel", item, spec.channels, pixels)
        image, row, column = place(code, pixel, (spec.batch, height, width))
        Interpolator(spec, buffers, code, image, row, column).channels(channel, 1)
    return code.kernel(buffers)
