"""Rounding to bfloat16, and weights packed in pairs of input channels."""

from __future__ import annotations

from itertools import product
from math import ceil

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tvm_ios.errors import UserError
from tvm_ios.program.bfloat16 import (
    bfloat16_bits,
    computed_precision,
    require_precision,
    rounded_units,
)
from tvm_ios.program.constant_transform import ParamTransform, packing_channels


def floats(*bits: int) -> np.ndarray:
    return np.array(bits, np.uint32).view(np.float32)


@given(st.lists(st.integers(0, 2**32 - 1), min_size=1))
def test_the_nearest_is_taken_of_any_bits(bits: list[int]) -> None:
    value = floats(*bits)
    rounded = bfloat16_bits(value)
    assert rounded.dtype == np.uint16
    want = value.astype(ml_dtypes.bfloat16)
    is_nan = np.isnan(value)
    assert np.array_equal(rounded[~is_nan], want.view(np.uint16)[~is_nan])
    # Which NaN it is nobody asks.
    assert np.isnan(rounded[is_nan].view(ml_dtypes.bfloat16).astype(np.float32)).all()


@pytest.mark.parametrize(
    ("bits", "want"),
    [
        # Halfway: to the even one, below or above; a little more is always above.
        (0x3F808000, 0x3F80),
        (0x3F818000, 0x3F82),
        (0x3F808001, 0x3F81),
        (0xBF818000, 0xBF82),
        # Zeros, the least subnormal, which is less than half of the least of bfloat16, and half.
        (0x80000000, 0x8000),
        (0x00000001, 0x0000),
        (0x00008000, 0x0000),
        (0x00008001, 0x0001),
        (0x007FFFFF, 0x0080),
        # Infinities, and the largest float, which becomes one.
        (0x7F800000, 0x7F80),
        (0xFF800000, 0xFF80),
        (0x7F7FFFFF, 0x7F80),
        (0x7F7F7FFF, 0x7F7F),
    ],
)
def test_numbers_at_the_edges(bits: int, want: int) -> None:
    assert bfloat16_bits(floats(bits)).tolist() == [want]


@pytest.mark.parametrize("bits", [0x7F800001, 0xFF80FFFF, 0x7FFFFFFF, 0xFFFFFFFF, 0x7FC00000])
def test_nan_stays_nan_and_keeps_its_sign(bits: int) -> None:
    (rounded,) = bfloat16_bits(floats(bits)).tolist()
    assert rounded & 0x7F80 == 0x7F80
    assert rounded & 0x7F
    assert rounded >> 15 == bits >> 31


@given(
    st.lists(st.integers(1, 9), min_size=1, max_size=3),
    st.integers(1, 9),
    st.tuples(st.integers(1, 3), st.integers(1, 3)),
    st.sampled_from([2, 4, 8]),
    st.integers(0, 2),
)
def test_pairs_lie_next_to_each_other(
    parts: list[int], channels: int, kernel: tuple[int, int], block: int, spare: int
) -> None:
    shape = (sum(parts), channels, *kernel)
    weight = np.arange(1, np.prod(shape) + 1, dtype=np.float32).reshape(shape)
    filled = (ceil(channels / 2) + spare) * 2
    pack = packing_channels(shape, parts, block, 2, filled)
    packed = pack.apply(weight)
    assert packed.shape == pack.shape(shape)
    assert packed.shape == (
        sum(ceil(part / block) for part in parts),
        *kernel,
        filled // 2,
        block,
        2,
    )
    want = np.zeros(packed.shape, np.float32)
    first_block = first = 0
    for part in parts:
        for o, i, y, x in product(range(part), *map(range, shape[1:])):
            place = (first_block + o // block, y, x, i // 2, o % block, i % 2)
            want[place] = weight[first + o, i, y, x]
        first_block, first = first_block + ceil(part / block), first + part
    assert np.array_equal(packed, want)


def test_a_matrix_is_packed_as_the_convolution_of_a_pixel() -> None:
    weight = np.arange(15, dtype=np.float32).reshape(5, 3)
    as_window = np.ascontiguousarray(weight.T)[:, :, None, None]
    pack, other = (packing_channels(shape, [3], 4, 2, 6) for shape in ((5, 3), (3, 5, 1, 1)))
    assert np.array_equal(pack.apply(weight), other.apply(as_window))


def test_the_steps_are_plain_data() -> None:
    transform = ParamTransform((*packing_channels((3, 5), [5], 4, 2, 4).steps, ("bfloat16",)))
    assert ParamTransform.from_json(transform.to_json()) == transform
    assert transform.shape((3, 5)) == (2, 1, 1, 2, 4, 2)
    assert transform.apply(np.ones((3, 5), np.float32)).dtype == np.uint16


def test_a_program_without_rounded_units_computes_in_float32() -> None:
    assert computed_precision("", ["winograd-4"]) == "float32"
    assert computed_precision("bfloat16", ["winograd-4"]) == "float32"
    assert computed_precision("bfloat16", ["winograd-4", "bfloat16"]) == "bfloat16"
    assert computed_precision("tf32", []) == "tf32"
    assert rounded_units("", ["bfloat16"], 3) == ""
    assert "2 of 3" in rounded_units("bfloat16", ["bfloat16", "fine", "bfloat16"], 3)
    assert "no unit" in rounded_units("bfloat16", ["fine"], 3)


def test_a_schedule_that_rounds_is_refused_where_float32_is_asked_for() -> None:
    require_precision("ios-both", ["bfloat16"], "bfloat16")
    require_precision("ios-both", ["winograd-4"], "")
    for precision in ("", "float32"):
        with pytest.raises(UserError, match=r"ios-both.* 2 units .*float32.*--precision bfloat16"):
            require_precision("ios-both", ["bfloat16", "bfloat16"], precision)
