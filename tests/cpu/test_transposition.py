"""Transposed copies, beside NumPy, and transpositions that need none."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tvm import relax

from runtime_ext.kernels.expression import Access
from runtime_ext.kernels.spec import Finer, Pointwise, Statement, extents
from runtime_ext.kernels.tile_work import across, finer, work_a_tile
from tests.fast_run import examples
from tests.kernels.kernel_harness import check as check_unit
from tests.kernels.kernel_harness import make_unit
from tests.kernels.open_kernels import TARGETS, OpenKernel, nothing, on_targets, random
from tvm_ios.program.program import LINE


def transposition(
    images: int, height: int, width: int, channels: int, *, by_rows: bool = False
) -> Pointwise:
    """[images, height, channels, width] becomes [images, height, width, channels].

    The result is the sum of the data, a number of each channel, and one of each pixel. ``by_rows``
    exchanges the axes of height and width in the spec, not in memory.
    """
    size = channels * width
    sum_of = ("add", ("load", Access(0, 0, (height * size, size, 1, width))), _FACTOR)
    value = ("add", sum_of, ("load", Access(2, 0, (0, 0, 1, 0))))
    target = Access(3, 0, (height * size, size, channels, 1))
    buffers = (
        (images, height, channels, width),
        (channels,),
        (width,),
        (images, height, width, channels),
    )
    grid, statement = (images, height, width), Statement(value, target, 0, channels)
    if not by_rows:
        return Pointwise(buffers, grid, (statement,))

    def exchanged(at: Access) -> Access:
        image, row, pixel, channel = at.strides
        return replace(at, strides=(image, pixel, row, channel))

    return Pointwise(buffers, (images, width, height), (statement.mapped(exchanged),))


_FACTOR = ("exp", ("load", Access(1, 0, (0, 0, 0, 1))))


def check(spec: Any, target: str) -> None:
    """Compare with NumPy; two partitions of the tiles give the same bits."""
    kernel = OpenKernel(spec, TARGETS[target])
    *read, result = map(extents, (spec.kernel if isinstance(spec, Finer) else spec).buffers)
    arrays = [*(random(*shape) for shape in read), nothing(*result)]
    whole = kernel.run({}, arrays)[-1]
    parts = kernel.run({}, arrays, [kernel.tiles({}) // 2])[-1]
    x, a, b, _ = arrays
    np.testing.assert_allclose(
        whole, x.swapaxes(2, 3) + np.exp(a) + b[:, None], rtol=1e-5, atol=1e-5
    )
    assert whole.tobytes() == parts.tobytes()


@on_targets
@pytest.mark.parametrize("by_rows", [False, True])
def test_squares_and_what_is_left_beside_them(by_rows: bool, target: str) -> None:
    spec = transposition(2, 3, 70, 37, by_rows=by_rows)
    assert across(spec) is not None
    check(spec, target)
    check(Finer(spec), target)


@examples(8)
@given(st.integers(1, 2), st.integers(1, 2), st.integers(1, 90), st.integers(1, 50), st.booleans())
def test_any_extents(images: int, height: int, width: int, channels: int, by_rows: bool) -> None:
    target = list(TARGETS)[-1]
    check(transposition(images, height, width, channels, by_rows=by_rows), target)


def test_few_channels_and_few_pixels_are_no_squares() -> None:
    assert across(transposition(1, 2, 224, 3)) is None
    assert across(transposition(1, 2, 7, 64)) is None


def test_statements_in_the_order_of_memory_are_no_transpositions() -> None:
    at = Access(0, 0, (0, 64 * 64, 64, 1))
    copy = Pointwise(((64, 64, 64),) * 2, (1, 64, 64), (Statement(("load", at), at, 0, 64),))
    assert across(copy) is None


def test_finer_tiles_are_whole_cache_lines() -> None:
    spec = transposition(1, 1, 512, 512)
    assert isinstance(finer(spec), Finer)
    assert (work_a_tile(spec, finer=False), work_a_tile(spec, finer=True)) == (64, LINE)


def of_samples(axes: list[int] | None, *, is_read_twice: bool = False) -> Any:
    """A convolution of samples, [N, C, L], whose result is transposed."""

    def body(emit: Any, x: Any, weight: Any, bias: Any) -> Any:
        image = emit(relax.op.nn.conv2d(x, weight, strides=(1, 2)))
        samples = emit(relax.op.squeeze(emit(relax.op.add(image, bias)), [2]))
        turned = relax.op.permute_dims(samples, axes)
        return relax.Tuple([samples, emit(turned)]) if is_read_twice else turned

    return make_unit([(2, 20, 1, 41)], [(40, 20, 1, 3), (1, 40, 1, 1)], body)


@pytest.mark.parametrize("axes", [[0, 2, 1], [2, 0, 1]])
def test_a_convolution_stores_what_is_read_transposed(
    axes: list[int], kernels_folder: Path
) -> None:
    unit = check_unit(str(kernels_folder), of_samples(axes), ("NHWC", ""))
    assert len(unit.code.calls) == 1


@pytest.mark.parametrize(("axes", "is_read_twice"), [([0, 2, 1], True), ([1, 0, 2], False)])
def test_other_transpositions_are_copies(
    axes: list[int], is_read_twice: bool, kernels_folder: Path
) -> None:
    """The samples are a result, too; or vectors of channels are not together in the result."""
    function = of_samples(axes, is_read_twice=is_read_twice)
    unit = check_unit(str(kernels_folder), function, ("NHWC", "") + ("",) * is_read_twice)
    assert len(unit.code.calls) == 2


def test_axes_in_reverse_are_a_transposition(kernels_folder: Path) -> None:
    check_unit(str(kernels_folder), of_samples(None), ("NHWC", ""))


def test_axes_of_one_move_inside_expressions(kernels_folder: Path) -> None:
    """What a convolution of samples reads is computed in the order in which it lies."""

    def body(emit: Any, x: Any, y: Any) -> Any:
        value = emit(relax.op.multiply(emit(relax.op.exp(x)), y))
        return relax.op.expand_dims(value, [2])

    function = make_unit([(2, 20, 41), (20, 1)], [], body)
    unit = check_unit(str(kernels_folder), function, ("", "", "NHWC"))
    assert len(unit.code.calls) == 1


def test_a_norm_that_is_transposed_and_back(kernels_folder: Path) -> None:
    """Between are only element-wise operators: these read the norm's rows as they lie."""

    def body(emit: Any, x: Any, scale: Any, bias: Any) -> Any:
        normed = emit(relax.op.nn.layer_norm(x, scale, bias, axes=[-1]))
        value = emit(relax.op.nn.relu(emit(relax.op.permute_dims(normed, [0, 2, 1]))))
        return relax.op.expand_dims(value, [2])

    function = make_unit([(2, 41, 20)], [(20,), (20,)], body)
    unit = check_unit(str(kernels_folder), function, ("", "NHWC"))
    assert len(unit.code.calls) == 2
