"""Convolutions by Winograd's filtering of images of any size, each compiled once."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import tvm

from runtime_ext.cpu.forms.winograd.estimate import winograd_cut
from runtime_ext.cpu.forms.winograd.plan import by_winograd, fits
from runtime_ext.isa.levels import isa_of
from runtime_ext.kernels.expression import ACC
from runtime_ext.kernels.spec import extents
from runtime_ext.units.placed import Placed
from runtime_ext.units.values import Storage
from tests.kernels.open_kernels import (
    TARGETS,
    OpenKernel,
    compared,
    kernel_of,
    nothing,
    on_targets,
    random,
)
from tests.kernels.test_open_images import RELU, B, Filter, H, W, convolution, convolved
from tvm_ios.program.program import Role
from tvm_ios.shapes.extent import Symbol, at_values, evaluate, extent_of

#: An extent that is always a whole number of tiles.
STEPS = extent_of(Symbol("steps", 1, 30, hint=3)) * 12
_TOLERANCES = {2: 4e-6, 4: 2e-5, 6: 1e-4}
Values = Mapping[str, int]


def check(
    filter: Filter,
    symbolic: tuple[int, int, int],
    shapes: Sequence[Values],
    outputs: int,
    channels: int = 5,
    out: int = 9,
    target: str = "avx2",
    is_fused: bool = False,
    **options: Any,
) -> None:
    spec, _ = convolution(filter, symbolic, channels, out, target=target, **options)
    assert fits(spec, outputs)
    weights = (out, channels, *filter.kernel)
    image, _, bias, result = map(extents, spec.buffers)
    storages = [
        Storage(Role.INPUT, 0, image),
        Storage(Role.CONSTANT, 1, weights),
        Storage(Role.CONSTANT, 2, bias),
        Storage(Role.OUTPUT, 0, result),
    ]
    isa = isa_of(tvm.target.Target(dict(TARGETS[target])))
    cut = replace(winograd_cut(spec, outputs, isa), is_fused=is_fused)
    placed = by_winograd(Placed(spec, (0, 1, 2, 3), storages), cut)
    *transforms, whole = (kernel_of(kernel.spec, target) for kernel in placed)
    assert len(transforms) == (0 if is_fused else 1)
    weight, added = random(*weights), random(out)
    packed = storages[1].transform.apply(weight)
    for values in shapes:
        batch, height, width = (evaluate(extent, values) for extent in symbolic)
        if min(filter.window(height, width).output) < 1:
            continue
        x = random(batch, height, width, channels)
        read = np.maximum(x, 0) if options.get("prologue") == RELU else x
        want = convolved(filter, read, weight, added)
        # Places of tiles that do not exist hold no numbers.
        data = _transformed(transforms[0], values, x) if transforms else x
        arrays = [data, packed, added, nothing(*want.shape)]
        compared(whole, values, arrays, want, _TOLERANCES[outputs], floor=1.0)


def _transformed(kernel: OpenKernel, values: Values, x: np.ndarray) -> np.ndarray:
    """The transformed input, of which two partitions have the same bits."""
    empty = nothing(*at_values(extents(kernel.spec.buffers[1]), values))
    whole = kernel.run(values, [x, empty])[1]
    tiles = kernel.tiles(values)
    parts = kernel.run(values, [x, empty], [tiles // 3, tiles // 2])[1]
    assert parts.tobytes() == whole.tobytes()
    return whole


SIZES = [
    {"batch": 1 + width % 2, "height": 1 + width % 7, "width": width}
    for width in (*range(1, 22), 41)
]


in_one_or_two_kernels = pytest.mark.parametrize("is_fused", [False, True])


@on_targets
@in_one_or_two_kernels
@pytest.mark.parametrize("outputs", [2, 4, 6])
def test_images_of_any_size(outputs: int, is_fused: bool, target: str) -> None:
    check(Filter(), (B, H, W), SIZES, outputs, target=target, is_fused=is_fused)


@in_one_or_two_kernels
@pytest.mark.parametrize(
    "filter",
    [
        Filter(pads=(0, 0, 0, 0)),
        Filter(pads=(0, 2, 1, 0)),
        Filter((1, 7), pads=(0, 3, 0, 3)),
        Filter((7, 1), pads=(3, 0, 3, 0)),
    ],
    ids=str,
)
def test_other_windows(filter: Filter, is_fused: bool) -> None:
    check(filter, (1, H, W), SIZES[::3], 2, is_fused=is_fused)


def test_filters_of_five_by_five() -> None:
    check(Filter((5, 5), pads=(2, 2, 2, 2)), (1, H, W), SIZES[::2], 4)


@on_targets
@in_one_or_two_kernels
def test_any_number_of_images(is_fused: bool, target: str) -> None:
    shapes = [{"batch": batch} for batch in range(1, 9)]
    options: dict[str, Any] = {"is_fused": is_fused, "target": target}
    check(Filter(), (B, 7, 7), shapes, 4, channels=20, out=40, **options)
    check(Filter(), (B, 8, 6), shapes, 2, **options)


@on_targets
@pytest.mark.parametrize("most", [8, 16, 18])
def test_ranges_of_few_tiles_have_room_for_whole_register_tiles(most: int, target: str) -> None:
    small = extent_of(Symbol("small", 1, most, hint=3))
    spec, _ = convolution(Filter(), (1, small, small), 16, 16, target=target)
    isa = isa_of(tvm.target.Target(dict(TARGETS[target])))
    cut = winograd_cut(spec, 4, isa)
    assert cut.block % cut.rows == 0
    shapes = [{"small": n} for n in range(1, most + 1)]
    check(Filter(), (1, small, small), shapes, 4, channels=16, out=16, target=target)


def test_widths_that_are_whole_tiles() -> None:
    check(Filter(), (1, 9, STEPS), [{"steps": n} for n in (1, 2, 5, 30)], 4)
    check(Filter(), (1, STEPS, STEPS), [{"steps": n} for n in (1, 3)], 6)


def test_what_is_read_is_activated_first_and_borders_stay_zero() -> None:
    check(Filter(), (1, H, W), SIZES[::4], 4, prologue=RELU)
    check(Filter(), (1, H, W), SIZES[::4], 4, prologue=RELU, is_fused=True)


def test_channels_that_depend_on_the_shape_do_not_fit() -> None:
    spec, _ = convolution(Filter(), (1, 8, 8), target="avx2")
    window = spec.window
    assert fits(spec, 4)
    assert not fits(replace(spec, channels=W), 4)
    assert not fits(replace(spec, window=replace(window, pads=(1, W))), 4)
    assert spec.prologue == ACC
