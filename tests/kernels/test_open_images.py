"""Kernels of images of any size, each compiled once, against NumPy at many sizes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from itertools import product
from typing import Any

import numpy as np
import pytest
import tvm

from runtime_ext.cpu.vector_space import VectorSpace
from runtime_ext.isa.levels import isa_of
from runtime_ext.kernels.cut import UNCUT, Blocking
from runtime_ext.kernels.expression import ACC, Access, Expr
from runtime_ext.kernels.spec import (
    Contraction,
    Finer,
    Interleave,
    Interpolation,
    Pooling,
    Positions,
    Resampling,
    Statement,
    Window,
)
from tests.kernels import open_kernels
from tests.kernels.open_kernels import (
    TARGETS,
    OpenKernel,
    cases_on_targets,
    kernel_of,
    nothing,
    on_targets,
    random,
)
from tvm_ios.errors import UserError
from tvm_ios.files.array_files import Array
from tvm_ios.onnx.rewrites import resample
from tvm_ios.program.constant_transform import packing
from tvm_ios.shapes.extent import Symbol, evaluate, extent_of

B = extent_of(Symbol("batch", 1, 8, hint=2))
H = extent_of(Symbol("height", 1, 300, hint=13))
W = extent_of(Symbol("width", 1, 300, hint=29))
HEIGHT = extent_of(Symbol("result_height", 1, 300, hint=31))
WIDTH = extent_of(Symbol("result_width", 1, 300, hint=17))
RELU: Expr = ("max", ACC, ("const", 0.0))


@dataclass(frozen=True)
class Filter:
    """The window of an operator: kernel, strides, pads (top, left, bottom, right), dilations."""

    kernel: tuple[int, int] = (3, 3)
    strides: tuple[int, int] = (1, 1)
    pads: tuple[int, int, int, int] = (1, 1, 1, 1)
    dilations: tuple[int, int] = (1, 1)

    def window(self, height: int, width: int) -> Window:
        """The window over images of a size."""
        output = [
            (n + self.pads[i] + self.pads[i + 2] - (self.kernel[i] - 1) * self.dilations[i] - 1)
            // self.strides[i]
            + 1
            for i, n in enumerate((height, width))
        ]
        sizes = (height, width), (output[0], output[1])
        return Window(*sizes, self.kernel, self.strides, self.pads[:2], self.dilations)

    def taps(self, x: Array, outside: float) -> Iterator[tuple[tuple[int, int], Array]]:
        """For each place of the kernel the pixels that it reads, of images in NHWC."""
        top, left, bottom, right = self.pads
        pads = ((0, 0), (top, bottom), (left, right), (0, 0))
        padded = np.pad(x, pads, constant_values=outside)
        rows, columns = self.window(x.shape[1], x.shape[2]).output
        for ky, kx in product(*map(range, self.kernel)):
            y, x0 = ky * self.dilations[0], kx * self.dilations[1]
            sy, sx = self.strides
            yield (
                (ky, kx),
                padded[:, y : y + (rows - 1) * sy + 1 : sy, x0 : x0 + (columns - 1) * sx + 1 : sx],
            )


def image_strides(height: int, width: int, channels: int) -> tuple[int, int, int, int]:
    return (height * width * channels, width * channels, channels, 1)


def compared(
    kernel: OpenKernel, values: Mapping[str, int], arrays: Sequence[Array], want: Array
) -> None:
    """Compare the last tensor, and the bits of two partitions."""
    open_kernels.compared(kernel, values, [*arrays, nothing(*want.shape)], want, floor=1.0)


def convolution(
    filter: Filter,
    size: tuple[int, int, int],
    channels: int = 3,
    out: int = 5,
    groups: int = 1,
    blocking: Blocking | None = None,
    target: str = "avx2",
    prologue: Expr = ACC,
) -> tuple[Contraction, Any]:
    """The spec of a convolution of images (batch, height, width), and how weights are packed."""
    batch, height, width = size
    window = filter.window(height, width)
    rows, columns = window.output
    value: Expr = ("max", ("add", ACC, ("load", Access(2, 0, (0, 0, 0, 1)))), ("const", -0.5))
    stored = Statement(value, Access(3, 0, image_strides(rows, columns, out)), 0, out)
    per_group = channels // groups
    weights = (out, per_group, *filter.kernel)
    spec = Contraction(
        ((batch, height, width, channels), weights, (out,), (batch, rows, columns, out)),
        batch,
        window,
        per_group,
        groups,
        Access(0, 0, image_strides(height, width, channels)),
        prologue,
        1,
        (out // groups,) * groups,
        UNCUT,
        (stored,),
    )
    space = VectorSpace(isa_of(tvm.target.Target(dict(TARGETS[target]))))
    spec = replace(spec, blocking=blocking or space.blocking(replace(spec, parts=(out // groups,))))
    assert isinstance(spec.blocking, Blocking)
    pack = packing(weights, spec.parts, space.width(spec.blocking))
    buffers = (spec.buffers[0], pack.shape(weights), *spec.buffers[2:])
    return replace(spec, buffers=buffers), pack


def convolved(filter: Filter, x: Array, weight: Array, bias: Array, groups: int = 1) -> Array:
    total: Any = 0
    out, per_group = weight.shape[:2]
    for (ky, kx), pixels in filter.taps(x.astype(np.float64), 0.0):
        of_groups = [
            pixels[..., g * per_group : (g + 1) * per_group]
            @ weight[g * (out // groups) : (g + 1) * (out // groups), :, ky, kx].T
            for g in range(groups)
        ]
        total = total + np.concatenate(of_groups, -1)
    return np.maximum(total + bias, -0.5)


def check_convolution(
    filter: Filter,
    symbolic: tuple[int, int, int],
    sizes: Sequence[Mapping[str, int]],
    target: str,
    channels: int = 3,
    out: int = 5,
    groups: int = 1,
    **options: Any,
) -> None:
    spec, pack = convolution(filter, symbolic, channels, out, groups, target=target, **options)
    kernel = kernel_of(spec, target)
    weight, bias = random(out, channels // groups, *filter.kernel), random(out)
    for values in sizes:
        batch, height, width = (evaluate(extent, values) for extent in symbolic)
        if min(filter.window(height, width).output) < 1:
            continue
        x = random(batch, height, width, channels)
        arrays = [x, pack.apply(weight), bias]
        read = np.maximum(x, 0) if options.get("prologue") == RELU else x
        compared(kernel, values, arrays, convolved(filter, read, weight, bias, groups))


WINDOWS = {
    "3x3": Filter(),
    "3x3 stride 2": Filter(strides=(2, 2)),
    "3x3 stride 3": Filter(strides=(3, 3)),
    "3x3 without pads": Filter(pads=(0, 0, 0, 0)),
    "3x3 pads behind": Filter(strides=(2, 2), pads=(0, 0, 1, 1)),
    "3x3 dilated": Filter(pads=(2, 2, 2, 2), dilations=(2, 2)),
    "1x1 stride 2": Filter((1, 1), (2, 2), (0, 0, 0, 0)),
    "5x5": Filter((5, 5), pads=(2, 2, 2, 2)),
    "5x5 stride 3": Filter((5, 5), (3, 3), (3, 3, 1, 1)),
    "7x7 stride 2": Filter((7, 7), (2, 2), (3, 3, 3, 3)),
    "1x7": Filter((1, 7), pads=(0, 3, 0, 3)),
    "4x4 wide pads": Filter((4, 4), pads=(3, 3, 3, 3)),
    "2x2 stride 2": Filter((2, 2), (2, 2), (0, 0, 0, 0)),
    "3x3 stride 2 dilated": Filter(strides=(2, 2), pads=(3, 3, 3, 3), dilations=(2, 2)),
}
#: All windows on one target, and on the others those of each kind of border.
ON_TARGETS = [
    (name, target)
    for name, target in product(WINDOWS, TARGETS)
    if target == "avx2" or name in ("3x3", "3x3 stride 2", "1x1 stride 2", "1x7")
]
#: All small widths of register tiles, and larger ones; each with another height.
SIZES = [
    {"batch": 1 + width % 2, "height": 1 + width % 5, "width": width}
    for width in (*range(1, 25), 32, 41)
]


@pytest.mark.parametrize(("name", "target"), ON_TARGETS)
def test_convolution_of_images_of_any_size(name: str, target: str) -> None:
    check_convolution(WINDOWS[name], (B, H, W), SIZES, target)


@pytest.mark.parametrize("pixels", [1, 2, 3, 4, 5, 8, 12])
def test_convolution_of_any_register_tile(pixels: int) -> None:
    sizes = [{"width": width} for width in (*range(1, 3 * pixels + 4), 64)]
    blocking = Blocking(pixels, 1)
    check_convolution(Filter(), (1, 3, W), sizes, "avx2", blocking=blocking)


@on_targets
def test_convolution_of_groups(target: str) -> None:
    filter = Filter(strides=(2, 1))
    check_convolution(filter, (B, H, W), SIZES[::3], target, channels=6, out=10, groups=2)


@on_targets
def test_convolution_of_an_activated_input(target: str) -> None:
    check_convolution(Filter(), (B, H, W), SIZES[::5], target, prologue=RELU)


@cases_on_targets(out=[5, 40, 70])
def test_convolution_of_many_channels(out: int, target: str) -> None:
    check_convolution(Filter(), (1, H, W), SIZES[::4], target, channels=20, out=out)


@cases_on_targets(filter={"1": Filter(), "2": Filter(strides=(2, 2))})
def test_convolution_of_images_of_known_width(filter: Filter, target: str) -> None:
    sizes = [{"batch": 1 + n % 4, "height": n} for n in range(1, 12)]
    check_convolution(filter, (B, H, 7), sizes, target)
    check_convolution(filter, (B, 7, 14), sizes[:5], target)


@on_targets
def test_large_weights_pass_in_regions(target: str) -> None:
    """All blocks of weights are applied to some rows before the next ones."""
    blocking = Blocking(6, 1, blocks_outer=True)
    sizes = [{"batch": batch, "height": 5} for batch in range(1, 9)]
    check_convolution(Filter(), (B, H, 60), sizes, target, out=40, blocking=blocking)
    wide = [{"batch": batch, "height": 1, "width": 41} for batch in range(1, 9)]
    check_convolution(Filter(), (B, H, W), wide, target, out=40, blocking=blocking)


@on_targets
def test_few_long_rows_are_cut_into_strips(target: str) -> None:
    """Of a single row all lanes have a part; strips begin and end without a border."""
    row = Filter((1, 5), pads=(0, 2, 0, 2))
    for filter in (row, Filter((1, 3), (1, 2), (0, 1, 0, 1)), Filter((1, 1), (1, 2), (0, 0, 0, 0))):
        sizes = [{"width": width} for width in (*range(1, 9), 23, 24, 25, 47, 48, 49, 100, 299)]
        check_convolution(filter, (1, 1, W), sizes, target)


@on_targets
def test_filters_of_spectra(target: str) -> None:
    """Long rows of a filter are loops, and their wide borders, too."""
    for pads in ((0, 0, 0, 0), (0, 50, 0, 50)):
        filter = Filter((1, 100), (1, 40), pads)
        sizes = [{"width": width} for width in (1, 50, 100, 139, 140, 200, 300)]
        check_convolution(filter, (1, 1, W), sizes, target, channels=1, out=20)


STEPS = extent_of(Symbol("steps", 1, 8, hint=3), 32)


@on_targets
def test_sizes_in_steps_need_the_code_of_one_border(target: str) -> None:
    filter = Filter(strides=(2, 2))
    sizes = [{"steps": steps} for steps in range(1, 5)]
    check_convolution(filter, (1, STEPS, STEPS), sizes, target)
    source = [
        kernel_of(convolution(filter, size, target=target)[0], target).module
        for size in ((1, STEPS, STEPS), (1, 32, W))
    ]
    lines = [len(module.inspect_source("asm").splitlines()) for module in source]
    assert lines[0] < lines[1]


def test_a_kernel_that_reads_what_it_writes_is_refused() -> None:
    spec, _ = convolution(Filter(), (1, H, W))
    (stored,) = spec.statements
    value = ("add", ACC, ("load", stored.target))
    with pytest.raises(UserError, match="Contraction that reads what it writes"):
        kernel_of(replace(spec, statements=(replace(stored, value=value),)), "avx2")


def pool(filter: Filter, size: tuple[int, int, int], channels: int, kind: str) -> Pooling:
    batch, height, width = size
    window = filter.window(height, width)
    rows, columns = window.output
    weight = 1 if kind == "depthwise" else None
    target = 1 if weight is None else 2
    stored = Statement(ACC, Access(target, 0, image_strides(rows, columns, channels)), 0, channels)
    weights = () if weight is None else ((*filter.kernel, channels),)
    return Pooling(
        ((batch, height, width, channels), *weights, (batch, rows, columns, channels)),
        kind,
        batch,
        window,
        channels,
        Access(0, 0, image_strides(height, width, channels)),
        ACC,
        weight,
        (stored,),
    )


def pooled(filter: Filter, x: Array, kind: str, weight: Array) -> Array:
    taps = list(filter.taps(x.astype(np.float64), -np.inf if kind == "max" else 0.0))
    if kind == "max":
        return np.max([pixels for _, pixels in taps], 0)
    if kind == "depthwise":
        return np.sum([pixels * weight[place] for place, pixels in taps], 0)
    total = np.sum([pixels for _, pixels in taps], 0)
    if kind == "mean":
        ones = np.ones_like(x)
        total = total / np.maximum(np.sum([n for _, n in filter.taps(ones, 0.0)], 0), 1)
    return total


@cases_on_targets(
    name=["3x3", "3x3 stride 2", "5x5", "2x2 stride 2", "3x3 dilated", "3x3 pads behind"],
    kind=["max", "sum", "mean", "depthwise"],
)
def test_pools_of_images_of_any_size(name: str, kind: str, target: str) -> None:
    filter, channels = WINDOWS[name], 19
    kernel = kernel_of(pool(filter, (B, H, W), channels, kind), target)
    weight = random(*filter.kernel, channels)
    for values in SIZES:
        batch, height, width = values.values()
        if min(filter.window(height, width).output) < 1:
            continue
        x = random(batch, height, width, channels)
        arrays = [x, weight] if kind == "depthwise" else [x]
        compared(kernel, values, arrays, pooled(filter, x, kind, weight))


def test_pools_of_images_of_known_width_and_in_finer_tiles() -> None:
    filter, channels = Filter(), 70
    spec = pool(filter, (B, H, 9), channels, "max")
    for kernel in (kernel_of(spec, "avx2"), kernel_of(Finer(spec), "avx2")):
        for batch, height in ((1, 1), (3, 2), (2, 11)):
            x = random(batch, height, 9, channels)
            want = pooled(filter, x, "max", x)
            compared(kernel, {"batch": batch, "height": height}, [x], want)


@on_targets
def test_enlarged_images_of_any_size(target: str) -> None:
    channels = 11
    taps = ((-1, 0.75), (0, 0.25))
    stored = Statement(RELU, Access(1, 0, image_strides(2 * H, 2 * W, channels)), 0, channels)
    shapes = ((B, H, W, channels), (B, 2 * H, 2 * W, channels))
    data = Access(0, 0, image_strides(H, W, channels))
    spec = Interpolation(shapes, B, (H, W), channels, data, ACC, taps, taps, (stored,))
    kernel = kernel_of(spec, target)
    for batch, height, width in ((1, 1, 1), (2, 1, 5), (1, 4, 3), (3, 7, 9)):
        x = random(batch, height, width, channels)

        def along(x: Array, axis: int) -> Array:
            """Results between each pixel and the one before it, and the one after it."""
            padded = np.concatenate([x.take([0], axis), x, x.take([-1], axis)], axis)
            before, here, after = (
                padded.take(range(i, i + x.shape[axis]), axis) for i in (0, 1, 2)
            )
            both = np.stack([before * 0.25 + here * 0.75, here * 0.75 + after * 0.25], axis + 1)
            shape = list(x.shape)
            shape[axis] *= 2
            return both.reshape(shape)

        want = np.maximum(along(along(x, 1), 2), 0)
        values = {"batch": batch, "height": height, "width": width}
        compared(kernel, values, [x], want)


def positions(coordinates: str, rounding: str, before: int, after: int) -> Positions:
    """Positions as of ONNX's Resize: step, offset and divisor."""
    step, offset, divisor = {
        "asymmetric": (before, 0, after),
        "half_pixel": (2 * before, before - after, 2 * after),
        "align_corners": (before - 1, 0, after - 1),
    }[coordinates]
    if rounding == "ceil":
        offset += divisor - 1
    return Positions(step, offset, divisor, bool(rounding))


@cases_on_targets(
    coordinates=["asymmetric", "half_pixel", "align_corners"], rounding=["", "floor", "ceil"]
)
def test_resampled_images_of_any_size(coordinates: str, rounding: str, target: str) -> None:
    channels = 11
    kind = resample.Filter("nearest" if rounding else "linear", rounding, Fraction(), False, False)
    stored = Statement(RELU, Access(1, 0, image_strides(HEIGHT, WIDTH, channels)), 0, channels)
    spec = Resampling(
        ((B, H, W, channels), (B, HEIGHT, WIDTH, channels)),
        B,
        (H, W),
        (HEIGHT, WIDTH),
        channels,
        Access(0, 0, image_strides(H, W, channels)),
        ACC,
        positions(coordinates, rounding, H, HEIGHT),
        positions(coordinates, rounding, W, WIDTH),
        (stored,),
    )
    kernel = kernel_of(spec, target)
    for before, after in (((1, 1), (1, 1)), ((1, 5), (3, 1)), ((4, 9), (7, 4)), ((7, 3), (7, 11))):
        x = random(2, *before, channels)
        want = x
        for axis in (0, 1):
            extents = before[axis], after[axis]
            scaled = resample.Axis(*extents, Fraction(after[axis], before[axis]), coordinates)
            pixels, weights = resample.taps(scaled, kind)
            want = np.stack(
                [
                    np.tensordot(weights[i], want.take(pixels[i], axis + 1), (0, axis + 1))
                    for i in range(after[axis])
                ],
                axis + 1,
            )
        names = ("height", "width", "result_height", "result_width")
        values = {"batch": 2, **dict(zip(names, (*before, *after), strict=True))}
        compared(kernel, values, [x], np.maximum(want, 0))


@on_targets
def test_interleaved_channels_of_images_of_any_size(target: str) -> None:
    count = 13
    reads = [("load", Access(i, 0, image_strides(H, W, count))) for i in (0, 1)]
    place = Access(2, 0, image_strides(H, W, 2 * count))
    shapes = ((B, H, W, count),) * 2 + ((B, H, W, 2 * count),)
    kernel = kernel_of(Interleave(shapes, (B, H, W), tuple(reads), place, count), target)
    for batch, height, width in ((1, 1, 1), (2, 3, 5), (1, 2, 200)):
        first, second = (random(batch, height, width, count) for _ in range(2))
        want = np.stack([first, second], -1).reshape(batch, height, width, 2 * count)
        values = {"batch": batch, "height": height, "width": width}
        compared(kernel, values, [first, second], want)
