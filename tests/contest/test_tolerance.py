"""What difference is one of rounding."""

from __future__ import annotations

import numpy as np
import pytest

from tvm_ios.contest.tolerance import rounds, tolerance

WIDE = [np.zeros(1, np.float32)]


def test_it_grows_with_what_rounds() -> None:
    limits = [tolerance(p, WIDE, quantised=False) for p in ("float32", "tf32", "float16")]
    assert limits[0] < limits[1] == limits[2]
    for precision in ("float32", "tf32", "float16"):
        assert tolerance(precision, WIDE, quantised=True) > max(limits)


def test_outputs_are_no_more_exact_than_their_types() -> None:
    narrow = [*WIDE, np.zeros(1, np.float16)]
    expected = tolerance("float16", WIDE, quantised=False)
    assert tolerance("float32", narrow, quantised=False) == expected


@pytest.mark.parametrize(
    ("kind", "does"), [("conv2d+round+clip", True), ("conv2d+relu", False), ("round", True)]
)
def test_who_rounds(kind: str, does: bool) -> None:
    assert rounds(["relu", kind]) is does
