"""Winograd's matrices: exact on whole numbers, and weights that are rounded once."""

from fractions import Fraction
from itertools import product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tvm_ios.program.constant_transform import ParamTransform
from tvm_ios.program.winograd import can_filter, filtering, share_of_products, transformed_weights

FILTERINGS = [(2, 3), (4, 3), (6, 3), (2, 5), (4, 5), (2, 7), (4, 7), (6, 7)]


def _times(matrix, vector):
    return [sum((a * x for a, x in zip(row, vector, strict=True)), Fraction(0)) for row in matrix]


@given(st.sampled_from(FILTERINGS), st.data())
def test_outputs_are_those_of_the_filter_in_exact_arithmetic(shape, data):
    outputs, taps = shape
    of = filtering(outputs, taps)
    numbers = st.integers(-1000, 1000).map(Fraction)
    weights = data.draw(st.lists(numbers, min_size=taps, max_size=taps))
    inputs = data.draw(st.lists(numbers, min_size=of.size, max_size=of.size))
    products = [
        a * b for a, b in zip(_times(of.weights, weights), _times(of.data, inputs), strict=True)
    ]
    want = [sum(weights[k] * inputs[i + k] for k in range(taps)) for i in range(outputs)]
    assert _times(of.inverse, products) == want


@pytest.mark.parametrize(("outputs", "taps"), FILTERINGS)
def test_what_kernels_multiply_by_is_exact_in_float32(outputs, taps):
    of = filtering(outputs, taps)
    for row in (*of.data, *of.inverse):
        assert [Fraction(float(np.float32(float(c)))) for c in row] == list(row)


@pytest.mark.parametrize(("outputs", "taps"), FILTERINGS)
def test_rows_of_a_pair_of_points_differ_by_the_signs_of_every_other_coefficient(outputs, taps):
    of = filtering(outputs, taps)
    for at in range(1, of.size - 1, 2):
        for k, (a, b) in enumerate(zip(of.data[at], of.data[at + 1], strict=True)):
            assert abs(a) == abs(b), k


def test_weights_are_computed_in_float64_and_rounded_once():
    weight = np.random.default_rng(0).standard_normal((3, 2, 3, 3)).astype("float32")
    of = filtering(4, 3)
    result = transformed_weights(weight, 4)
    assert result.dtype == np.float32
    for o, i in product(range(3), range(2)):
        rows = [[Fraction(float(w)) for w in row] for row in weight[o, i]]
        by_rows = [_times(of.weights, column) for column in zip(*rows, strict=True)]
        exact = [_times(of.weights, column) for column in zip(*by_rows, strict=True)]
        np.testing.assert_array_equal(
            result[o, i], np.array([[float(x) for x in row] for row in exact], "float32")
        )


def test_an_axis_of_one_tap_is_left_as_it_is():
    weight = np.random.default_rng(0).standard_normal((3, 2, 7)).astype("float32")
    matrix = np.array(filtering(4, 7).weights, float)
    want = np.einsum("ik,ock->oci", matrix, weight.astype(float)).astype("float32")
    np.testing.assert_allclose(transformed_weights(weight[:, :, None], 4)[:, :, 0], want, 1e-6)
    columns = transformed_weights(weight[..., None], 4)[..., 0]
    np.testing.assert_array_equal(transformed_weights(weight[:, :, None], 4)[:, :, 0], columns)
    assert ParamTransform((("winograd", 4),)).shape((3, 2, 1, 7)) == (3, 2, 1, 10)


@pytest.mark.parametrize(
    ("outputs", "kernel", "expected"),
    [
        (6, (3, 3), True),
        (4, (5, 5), True),
        (6, (5, 5), False),
        (6, (1, 7), True),
        (6, (9, 1), False),
        (4, (9, 1), True),
        (2, (7, 3), True),
        (4, (7, 3), False),
        (2, (1, 1), False),
        (2, (1, 2), False),
    ],
)
def test_tiles_are_larger_along_one_axis_than_along_two(outputs, kernel, expected):
    assert can_filter(outputs, kernel) == expected


def test_the_step_of_a_constant_knows_its_shape_and_is_plain_data():
    transform = ParamTransform((("winograd", 6),))
    weight = np.ones((5, 4, 3, 3), "float32")
    assert transform.apply(weight).shape == transform.shape(weight.shape) == (5, 4, 8, 8)
    assert ParamTransform.from_json(transform.to_json()) == transform


def test_forms_have_fewer_products():
    assert share_of_products("winograd-4", (3, 3)) == 36 / 144
    assert share_of_products("winograd-2", (5, 5)) == 36 / 100
    assert share_of_products("winograd-6", (3, 3)) == pytest.approx(64 / 324)
    assert share_of_products("winograd-4", (1, 7)) == 10 / 28
    assert share_of_products("int16", (3, 3)) == 1


def test_tiles_of_other_sizes_are_refused():
    with pytest.raises(ValueError, match="F\\(3, 3\\)"):
        filtering(3, 3)
