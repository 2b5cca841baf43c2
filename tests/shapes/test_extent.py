"""Extents that are expressions: as the numbers that they stand for, at every shape."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable
from itertools import product
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.fast_run import examples
from tvm_ios.shapes.extent import (
    OpenExtentError,
    Symbol,
    bounds,
    ceil_div,
    evaluate,
    extent_of,
    hint_of,
    is_open,
    may_be_positive,
    noted_guards,
    numbers_in_range,
    symbols_of,
)

BATCH = Symbol("batch", 1, 6, hint=3)
LENGTH = Symbol("length", 2, 11, hint=7)
SHAPES = [
    {"batch": batch, "length": length} for batch, length in product(range(1, 7), range(2, 12))
]
B, L = extent_of(BATCH), extent_of(LENGTH)


@st.composite
def expressions(draw: st.DrawFn) -> Callable[[Any, Any], Any]:
    """A function of batch and length by a few operations of integers."""
    steps = draw(
        st.lists(st.tuples(st.sampled_from("+-*/%nbl"), st.integers(1, 9)), min_size=1, max_size=6)
    )

    def computed(batch: Any, length: Any) -> Any:
        value = length
        for name, number in steps:
            match name:
                case "+":
                    value = value + number
                case "-":
                    value = number - value
                case "*":
                    value = value * number
                case "/":
                    value = value // number
                case "%":
                    value = value % number
                case "n":
                    value = -(-value // number)
                case "b":
                    value = value * batch
                case _:
                    value = value + length * number
        return value

    return computed


@examples(150)
@given(expressions())
def test_expressions_are_what_numbers_are(computed: Callable[[Any, Any], Any]) -> None:
    extent = computed(B, L)
    for shape in SHAPES:
        assert evaluate(extent, shape) == computed(shape["batch"], shape["length"])
    assert hint_of(extent) == computed(BATCH.hint, LENGTH.hint)


@examples(150)
@given(
    expressions(),
    expressions(),
    st.sampled_from([operator.lt, operator.le, operator.eq, operator.ne, operator.gt, operator.ge]),
)
def test_comparisons_are_decided_or_noted(
    one: Callable[[Any, Any], Any], other: Callable[[Any, Any], Any], compare: Any
) -> None:
    answers = [
        compare(one(s["batch"], s["length"]), other(s["batch"], s["length"])) for s in SHAPES
    ]
    with noted_guards() as guards:
        answer = compare(one(B, L), other(B, L))
    assert bool(guards) == (len(set(answers)) > 1)
    if not guards:
        assert answer == answers[0]
    for guard in guards:
        assert [guard.holds(shape) for shape in SHAPES] == [a == answer for a in answers]


def test_quotients_have_a_normal_form() -> None:
    assert repr(L // 2 // 4) == repr(L // 8) == "length//8"
    assert (8 * L + 7) // 8 is not L
    assert repr((8 * L + 7) // 8) == "length"
    assert (6 * B * L) // (2 * L) == 3 * B
    assert (L + 1) // 32 == 0, "it is 12 at most"
    assert repr(L % 2) == "length-2*(length//2)"
    assert repr((L + 3) // 4 * B) == "((3+length)//4)*batch"
    assert not is_open(L - L)
    assert math.prod((2, B, 3, L)) == 6 * B * L
    assert symbols_of(B * (L // 2)) == (BATCH, LENGTH)
    assert hash(B * L) == hash(L * B)


@pytest.mark.parametrize(
    "used",
    [
        lambda: range(L),
        lambda: [0] * L,
        lambda: int(L),
        lambda: "abc"[L],
        lambda: 7 // L,
        lambda: L // (B + 1),
        lambda: L // -2,
        lambda: L == 5,
        lambda: max(L, 5),
    ],
)
def test_no_expression_is_lost_without_a_word(used: Callable[[], object]) -> None:
    with pytest.raises((OpenExtentError, TypeError)):
        used()


def test_large_ranges_are_decided_by_bounds() -> None:
    wide = extent_of(Symbol("wide", 1, 1 << 40, hint=9))
    assert wide + 1 > 1
    with noted_guards() as guards:
        assert wide < 1 << 20
    assert [str(guard) for guard in guards] == ["wide < 1048576 is True"]


def test_the_numbers_that_an_extent_may_be() -> None:
    """A stride of 2 leaves one of two borders, one for each remainder of the width."""
    width = extent_of(Symbol("width", 3, 60, hint=9))
    over = 2 * ((width - 1) // 2) + 2 - width
    assert numbers_in_range(over, 2) == (0, 1)
    assert numbers_in_range(over, 1) is None
    assert numbers_in_range(7, 1) == (7,)
    large = extent_of(Symbol("large", 1, 1 << 40, hint=9))
    assert numbers_in_range(large - 3 * large // 3, 4) == (0,)
    assert numbers_in_range(large, 100) is None


@examples(60)
@given(expressions())
def test_numbers_in_a_range_of_any_size(computed: Callable[[Any, Any], Any]) -> None:
    """Values that a step further give the same numbers are left out."""
    batch = extent_of(Symbol("batch", 1, 9, hint=3))
    length = extent_of(Symbol("length", 2, 300, hint=7))
    shapes = product(range(1, 10), range(2, 301))
    want = tuple(sorted({computed(*shape) for shape in shapes}))
    assert numbers_in_range(computed(batch, length), 1 << 40) == want


def test_what_strides_leave_of_many_samples() -> None:
    """Two convolutions of stride 5 and 2, and 2 again: the last window ends before the row does."""
    samples = extent_of(Symbol("samples", 400, 1 << 30, hint=16_000))
    first = (samples - 10) // 5 + 1
    second = (first - 3) // 2 + 1
    third = (second - 3) // 2 + 1
    for width, before in ((second, first), (third, second)):
        assert numbers_in_range((width - 1) * 2 + 3 - before, 4) == (-1, 0)
        assert not may_be_positive((width - 1) * 2 + 3 - before)


def test_a_quotient_that_is_rounded_up_has_exact_bounds() -> None:
    rows = extent_of(Symbol("rows", 1, 1 << 20, hint=9))
    for divisor in range(1, 40):
        tiles = ceil_div(rows, divisor)
        assert bounds(tiles) == (1, -(-(1 << 20) // divisor))
        for value in (1, divisor, divisor + 1, 12345):
            assert evaluate(tiles, {"rows": value}) == ceil_div(value, divisor)
            assert ceil_div(value, divisor) == -(-value // divisor)


def test_whether_an_extent_may_be_positive() -> None:
    width = extent_of(Symbol("width", 3, 60, hint=9))
    assert may_be_positive(width - 59)
    assert not may_be_positive(width - 60)
    assert not may_be_positive(2 * (width // 2) - width)
    assert may_be_positive(1)
    assert not may_be_positive(0)
