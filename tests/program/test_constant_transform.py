"""Packing of weights: against the definition, and as plain data."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from tests.refusals import refused
from tvm_ios.program.constant_transform import ParamTransform, packing


@given(
    parts=st.lists(st.integers(1, 9), min_size=1, max_size=3),
    channels=st.integers(1, 4),
    kernel=st.tuples(st.integers(1, 3), st.integers(1, 3)),
    block=st.integers(1, 8),
)
def test_packing_places_every_weight(
    parts: list[int], channels: int, kernel: tuple[int, int], block: int
) -> None:
    weight = np.arange(1, 1 + sum(parts) * channels * kernel[0] * kernel[1], dtype="float32")
    weight = weight.reshape(sum(parts), channels, *kernel)
    transform = packing(weight.shape, parts, block)
    packed = transform.apply(weight)
    assert packed.shape == transform.shape(weight.shape)
    assert packed.flags.c_contiguous
    assert np.count_nonzero(packed) == weight.size
    out = first = 0
    for part in parts:
        for o in range(part):
            b, v = first + o // block, o % block
            np.testing.assert_array_equal(packed[b, :, :, :, v], weight[out + o].transpose(1, 2, 0))
        out += part
        first += -(-part // block)


def test_packing_of_a_matrix_transposes_it() -> None:
    matrix = np.arange(15, dtype="float32").reshape(3, 5)
    packed = packing((3, 5), [5], 4).apply(matrix)
    assert packed.shape == (2, 1, 1, 3, 4)
    np.testing.assert_array_equal(packed[1, 0, 0, :, 0], matrix[:, 4])


def test_transforms_are_plain_data() -> None:
    transform = packing((10, 3, 3, 3), [4, 6], 4)
    data: Any = json.loads(json.dumps(transform.to_json()))
    assert ParamTransform.from_json(data) == transform
    assert ParamTransform.from_json([]) == ParamTransform()


def test_an_unknown_step_is_an_error() -> None:
    with refused(ValueError, "'rotate'"):
        ParamTransform((("rotate", 1),)).apply(np.zeros(3))
