"""What difference is one of rounding."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tvm_ios.contest.outputs import difference, output_errors
from tvm_ios.contest.tolerance import Tolerance, rounds, tolerance, widened

WIDE = [np.zeros(1, np.float32)]


def test_it_grows_with_what_rounds() -> None:
    limits = [tolerance(p, WIDE, quantised=False).relative for p in ("float32", "tf32", "float16")]
    assert limits[0] < limits[1] == limits[2]
    for precision in ("float32", "tf32", "float16"):
        assert tolerance(precision, WIDE, quantised=True).relative > max(limits)


def test_outputs_are_no_more_exact_than_their_types() -> None:
    narrow = [*WIDE, np.zeros(1, np.float16)]
    expected = tolerance("float16", WIDE, quantised=False)
    assert tolerance("float32", narrow, quantised=False) == expected


@pytest.mark.parametrize(
    ("kind", "does"), [("conv2d+round+clip", True), ("conv2d+relu", False), ("round", True)]
)
def test_who_rounds(kind: str, does: bool) -> None:
    assert rounds(["relu", kind]) is does


@pytest.mark.parametrize(
    ("wrong", "right"),
    [
        (np.array([1, 999]), np.array([1, 1000])),
        (np.array([2**62 + 1]), np.array([2**62])),
        (np.array([1000], np.int32), np.array([1001], np.int32)),
        (np.array([True, False]), np.array([True, True])),
    ],
)
def test_indices_and_truth_values_have_to_be_equal(wrong: Any, right: Any) -> None:
    for quantised in (False, True):
        limit = tolerance("float16", [right], quantised=quantised)
        assert "1 of" in difference([wrong], [right], limit)
        assert difference([right], [right.copy()], limit) == ""


@pytest.mark.parametrize("kind", ["uint8", "int8", "uint16", "int16"])
def test_rounded_numbers_may_be_a_step_apart(kind: str) -> None:
    right = np.array([3, 100], kind)
    near, far = right + np.array(1, kind), right + np.array(2, kind)
    for less, more in ((right, near), (near, right)):
        assert difference([less], [more], tolerance("float32", [more], quantised=True)) == ""
        assert difference([less], [more], tolerance("float32", [more], quantised=False))
    assert "2 of 2" in difference([far], [right], Tolerance(1.0, 1))


def test_each_output_by_its_type() -> None:
    numbers, indices = np.array([1.0, 2.0], np.float32), np.array([7, 8])
    limit = tolerance("float32", [numbers], quantised=False)
    assert difference([numbers * 1.0001, indices], [numbers, indices], limit) == ""
    assert "output 1" in difference([numbers, indices + 1], [numbers, indices], limit)
    assert "largest output" in difference([numbers * 1.1, indices], [numbers, indices], limit)
    assert "shapes" in difference([numbers], [numbers, indices], limit)
    assert "shapes" in difference([numbers, indices[:1]], [numbers, indices], limit)
    # What is reported is of both.
    assert output_errors([numbers, indices + 1], [numbers, indices]) == (1.0, 1 / 8)


def test_outputs_near_zero_may_differ_by_a_step_of_one() -> None:
    limit = tolerance("float32", [np.zeros(1, np.float32)], quantised=False)
    small = np.array([1e-9, 2e-7], np.float32)
    # As a sigmoid does that is computed by tanh.
    assert difference([small + np.float32(6e-8)], [small], limit) == ""
    # As ONNX Runtime's is of -17.
    assert difference([small + np.float32(1.4e-7)], [small], limit) == ""
    assert "largest output" in difference([small + np.float32(3e-7)], [small], limit)


def test_a_reference_with_an_error_of_its_own() -> None:
    limit = tolerance("float32", WIDE, quantised=False)
    assert widened(limit, 1e-5) == limit
    assert widened(limit, 2.5e-3).relative == pytest.approx(1e-2)
    # A wrong program is not hidden by it, however large it is.
    assert widened(limit, 1.0).relative == 2e-2
