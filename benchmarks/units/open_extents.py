"""Kernels of any number of rows or columns against those of exactly these: layers of networks.

Those of a text encoder, and convolutions of images.

Run: python -m benchmarks.units.open_extents [LAYER ...] [--target x86-64-v3] [--at 7,31]
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import tvm

from benchmarks.in_turn import Runner, compared
from benchmarks.report import update_result
from runtime_ext.cpu.kernel_build import build_kernel
from runtime_ext.cpu.vector_space import VectorSpace
from runtime_ext.isa.levels import isa_of
from runtime_ext.kernels.chain import Attention
from runtime_ext.kernels.cut import UNCUT
from runtime_ext.kernels.expression import ACC, Access, Expr
from runtime_ext.kernels.spec import (
    Contraction,
    Normalisation,
    Pooling,
    Product,
    Statement,
    Window,
    extents,
)
from runtime_ext.machine import this_machine
from tvm_ios.program.constant_transform import packing
from tvm_ios.program.program import LINE
from tvm_ios.shapes.extent import Symbol, at_values, evaluate, extent_of

_HEADS, _DEPTH = 12, 64
_AT = (1, 2, 5, 7, 31, 128, 384)


def dense(channels: int, out: int, gelu: bool = False) -> Callable[[int, int], Contraction]:
    """Rows times a matrix, plus a bias."""
    value: Expr = ("add", ACC, ("load", Access(2, 0, (0, 0, 0, 1))))
    if gelu:
        half, root = ("mul", value, ("const", 0.5)), ("mul", value, ("const", 0.5**0.5))
        value = ("mul", half, ("add", ("const", 1.0), ("erf", root)))

    def spec(rows: int, _: int) -> Contraction:
        window = Window((1, rows), (1, rows), (1, 1), (1, 1), (0, 0), (1, 1))
        stored = Statement(value, Access(3, 0, (0, 0, out, 1)), 0, out)
        return Contraction(
            ((rows, channels), (channels, out), (out,), (rows, out)),
            1,
            window,
            channels,
            1,
            Access(0, 0, (0, 0, channels, 1)),
            ACC,
            1,
            (out,),
            UNCUT,
            (stored,),
        )

    return spec


def scores(length: int, row: int) -> Product:
    """Products of queries and keys."""
    return Product(
        ((_HEADS, length, _DEPTH), (_HEADS, _DEPTH, row), (_HEADS, length, row)),
        (1, _HEADS, length),
        length,
        _DEPTH,
        Access(0, 0, (0, length * _DEPTH, _DEPTH, 1)),
        Access(1, 0, (0, _DEPTH * row, row, 1)),
        (
            Statement(
                ("mul", ACC, ("const", 0.125)), Access(2, 0, (0, length * row, row, 1)), 0, length
            ),
        ),
    )


def softmax(length: int, row: int) -> Normalisation:
    """The softmax of all scores."""
    at = Access(0, 0, (0, length * row, row, 1))
    stored = Statement(ACC, Access(1, 0, at.strides), 0, length)
    buffers = ((_HEADS, length, row),) * 2
    return Normalisation(buffers, "softmax", (1, _HEADS, length), length, at, ACC, 0.0, (stored,))


def values(length: int, row: int) -> Product:
    """Products of the softmax and the values."""
    width = _HEADS * _DEPTH
    return Product(
        ((_HEADS, length, row), (_HEADS, length, _DEPTH), (length, width)),
        (1, _HEADS, length),
        _DEPTH,
        length,
        Access(0, 0, (0, length * row, row, 1)),
        Access(1, 0, (0, length * _DEPTH, _DEPTH, 1)),
        (Statement(ACC, Access(2, 0, (0, _DEPTH, width, 1)), 0, _DEPTH),),
    )


def attention(length: int, row: int) -> Attention:
    """Scores, softmax and values as one kernel."""
    made, weighed, parts = scores(length, row), softmax(length, row), values(length, row)
    buffers = (*made.buffers[:2], *parts.buffers[1:])
    ours = replace(parts.other, buffer=2)
    (stored,) = parts.statements
    stored = replace(stored, target=replace(stored.target, buffer=3))
    parts = replace(parts, buffers=buffers, other=ours, statements=(stored,))
    made, weighed = replace(made, buffers=buffers), replace(weighed, buffers=buffers)
    return Attention(buffers, made, weighed, parts, 24)


def layer_norm(rows: int, _: int) -> Normalisation:
    """Layer normalisation of 384 channels, with a scale and a bias."""
    scaled = ("mul", ACC, ("load", Access(1, 0, (0, 0, 0, 1))))
    value = ("add", scaled, ("load", Access(2, 0, (0, 0, 0, 1))))
    at = (0, 0, 384, 1)
    stored = Statement(value, Access(3, 0, at), 0, 384)
    buffers = ((rows, 384), (384,), (384,), (rows, 384))
    return Normalisation(
        buffers, "layer_norm", (1, 1, rows), 384, Access(0, 0, at), ACC, 1e-5, (stored,)
    )


def convolution(
    height: int, channels: int, out: int, stride: int = 1, kernel: int = 3
) -> Callable[[int, int], Contraction]:
    """A convolution of images of a height, with a bias and an activation."""

    def spec(width: int, _: int) -> Contraction:
        window, strides = _window(height, width, stride, kernel)
        biased = ("add", ACC, ("load", Access(2, 0, (0, 0, 0, 1))))
        target = Access(3, 0, strides(*window.output, out))
        return Contraction(
            (
                (height, width, channels),
                (out, channels, kernel, kernel),
                (out,),
                (*window.output, out),
            ),
            1,
            window,
            channels,
            1,
            Access(0, 0, strides(height, width, channels)),
            ACC,
            1,
            (out,),
            UNCUT,
            (Statement(("max", biased, ("const", 0.0)), target, 0, out),),
        )

    return spec


def depthwise(height: int, channels: int, stride: int = 1) -> Callable[[int, int], Pooling]:
    """A depthwise convolution of images of a height."""

    def spec(width: int, _: int) -> Pooling:
        window, strides = _window(height, width, stride, 3)
        stored = Statement(ACC, Access(2, 0, strides(*window.output, channels)), 0, channels)
        data = Access(0, 0, strides(height, width, channels))
        shapes = ((height, width, channels), (3, 3, channels), (*window.output, channels))
        return Pooling(shapes, "depthwise", 1, window, channels, data, ACC, 1, (stored,))

    return spec


def _window(height: int, width: int, stride: int, kernel: int) -> tuple[Window, Any]:
    """The window of a padded kernel, and what makes the strides of an image."""
    pad = kernel // 2
    output = ((height - 1) // stride + 1, (width - 1) // stride + 1)
    window = Window((height, width), output, (kernel, kernel), (stride, stride), (pad, pad), (1, 1))
    return window, lambda h, w, c: (h * w * c, w * c, c, 1)


#: By name, what makes the spec for a length and the elements from one row of scores to the next.
LAYERS: dict[str, Callable[[int, int], Any]] = {
    "dense 384x384": dense(384, 384),
    "dense 384x1536": dense(384, 1536, gelu=True),
    "dense 1536x384": dense(1536, 384),
    "scores": scores,
    "softmax": softmax,
    "values": values,
    "attention": attention,
    "layer norm": layer_norm,
    "conv 64x64": convolution(28, 64, 64),
    "conv 128x128": convolution(14, 128, 128),
    "conv 256x256": convolution(14, 256, 256),
    "conv 512x512": convolution(7, 512, 512),
    "conv 64x128 by 2": convolution(28, 64, 128, 2),
    "conv 16x32 by 2": convolution(80, 16, 32, 2),
    "conv 16x16": convolution(80, 16, 16),
    "conv 3x64 7x7 by 2": convolution(112, 3, 64, 2, 7),
    "depthwise 32": depthwise(56, 32),
    "depthwise 192": depthwise(28, 192),
    "depthwise 192 by 2": depthwise(28, 192, 2),
}


class Bench:
    """A target on which kernels are compiled and timed."""

    def __init__(self, target: tvm.target.Target) -> None:
        self._target = target
        self._space = VectorSpace(isa_of(target))
        self._count = 0

    def kernel(self, spec: Any) -> tuple[Any, Any, Any]:
        """The spec as it is compiled, the compiled module, and its phase."""
        if isinstance(spec, Contraction):
            spec = replace(spec, blocking=self._space.blocking(spec))
            whole = spec.buffers[spec.weight]
            width = self._space.width(spec.blocking)
            packed = packing(whole, spec.parts, width).shape(whole)
            shapes = (*spec.buffers[:1], packed, *spec.buffers[2:])
            spec = replace(spec, buffers=shapes)
        self._count += 1
        artefact, module = build_kernel(spec, f"bench{self._count}", self._target, self._space.isa)
        (phase,) = artefact.phases
        return spec, module, phase

    def runner(self, made: tuple[Any, Any, Any], at: dict[str, int]) -> Runner:
        """Runs all tiles of a kernel at a shape, on random data."""
        spec, module, phase = made
        rng = np.random.default_rng(0)
        memory: list[Any] = []
        for shape in at_values(spec.buffers, at):
            size = int(np.prod(extents(shape)))
            memory.append(tvm.runtime.tensor(rng.standard_normal(size + LINE, np.float32)))
        scalars = [at[name] for name in phase.scalars]
        arguments = (*memory, *scalars, 0, evaluate(phase.tiles, at))

        def run(number: int) -> float:
            timer = module.time_evaluator(phase.symbol, tvm.cpu(), number=number)
            return timer(*arguments).results[0]

        return run


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("layers", nargs="*", metavar="LAYER", default=[*LAYERS])
    parser.add_argument("--target", default="", help="the processor, by default this one")
    parser.add_argument("--at", type=lambda text: tuple(map(int, text.split(","))), default=_AT)
    options = parser.parse_args()
    target = this_machine.host_target(1)
    if options.target:
        target = tvm.target.Target({"kind": "llvm", "mcpu": options.target})
    bench, length = Bench(target), extent_of(Symbol("length", 1, 1024, 128))
    for name in options.layers:
        make = LAYERS[name]
        made = bench.kernel(make(length, (length + LINE - 1) // LINE * LINE))
        rows: list[dict[str, Any]] = []
        for at in options.at:
            exact = bench.runner(bench.kernel(make(at, at)), {})
            ratio, (old, new) = compared(exact, bench.runner(made, {"length": at}), most=1.5)
            print(f"{name:16} {at:5} {old * 1e6:10.1f} us {ratio.median:.3f}", flush=True)
            rows.append(
                {
                    "layer": name,
                    "target": options.target or "this machine's",
                    "rows": at,
                    "exact_us": round(old * 1e6, 2),
                    "open_us": round(new * 1e6, 2),
                    "ratio": round(ratio.median, 3),
                }
            )
        update_result("open_extents", rows, "layer", "target", "rows")


if __name__ == "__main__":
    main()
