"""Extents as expressions of TIR: the same numbers, and the same extents on the way back."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tvm import tirx

from runtime_ext.kernels.open_shapes import extent_of_prim, prim_of_extent
from tests.fast_run import examples
from tvm_ios.errors import UserError
from tvm_ios.shapes.extent import Symbol, evaluate, extent_of

SYMBOLS = {
    "batch": Symbol("batch", 1, 6, hint=3),
    "length": Symbol("length", 1, 40, hint=7),
}
B, L = map(extent_of, SYMBOLS.values())
VARIABLES = {name: tirx.Var(name, "int64") for name in SYMBOLS}


@st.composite
def extents(draw: st.DrawFn) -> int:
    extent = draw(st.sampled_from([B, L, B * L]))
    for by in draw(st.lists(st.integers(1, 17), max_size=4)):
        change: Callable[[int], int] = draw(
            st.sampled_from(
                [
                    lambda e: e + by,  # noqa: B023
                    lambda e: e * by,  # noqa: B023
                    lambda e: e // by,  # noqa: B023
                    lambda e: -(-e // by),  # noqa: B023
                    lambda e: e * L - by,  # noqa: B023
                ]
            )
        )
        extent = change(extent)
    return extent


@examples(100)
@given(extents(), st.integers(1, 6), st.integers(1, 40))
def test_expressions_have_the_extents_values(extent: int, batch: int, length: int) -> None:
    expression = prim_of_extent(extent, VARIABLES)
    assert str(expression.ty.dtype) == "int64"
    values = {"batch": batch, "length": length}
    # TVM folds expressions of numbers.
    folded = prim_of_extent(extent, {n: tirx.IntImm("int64", v) for n, v in values.items()})
    assert int(folded) == evaluate(extent, values)
    assert repr(extent_of_prim(expression, SYMBOLS)) == repr(extent)


def test_quotients_and_remainders_are_read() -> None:
    length = VARIABLES["length"]
    padded = tirx.floordiv(length + 15, 16) * 16 - tirx.floormod(length, 16)
    assert extent_of_prim(padded, SYMBOLS) == (L + 15) // 16 * 16 - L % 16
    assert extent_of_prim(tirx.Cast("int32", length), SYMBOLS) == L
    assert extent_of_prim(7, SYMBOLS) == 7


def test_extremes_that_are_one_operand_at_all_shapes_are_read() -> None:
    length = VARIABLES["length"]
    assert extent_of_prim(tirx.max(length + 3, 2), SYMBOLS) == L + 3
    assert extent_of_prim(tirx.max(length - 40, 0), SYMBOLS) == 0
    assert extent_of_prim(tirx.min(length * 2, 80), SYMBOLS) == L * 2
    assert extent_of_prim(tirx.min(1, length), SYMBOLS) == 1


def test_other_expressions_are_refused_by_name() -> None:
    with pytest.raises(UserError, match="Max"):
        extent_of_prim(tirx.max(VARIABLES["length"], 3), SYMBOLS)
    with pytest.raises(UserError, match="Min"):
        extent_of_prim(tirx.min(VARIABLES["length"], 3), SYMBOLS)
    with pytest.raises(UserError, match="Var"):
        extent_of_prim(tirx.Var("unknown", "int64"), SYMBOLS)
