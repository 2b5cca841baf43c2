"""Rounded and clipped quotients without division are those that division gives."""

from __future__ import annotations

import ctypes
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from runtime_ext.kernels.quotients import reciprocal, with_reciprocals

FLOAT = np.float32
fused = ctypes.CDLL("libm.so.6").fmaf
fused.restype, fused.argtypes = ctypes.c_float, [ctypes.c_float] * 3
ACC = ("acc",)


def const(value: float) -> tuple[str, float]:
    return ("const", value)


def clipped(value: Any, low: float, high: float) -> Any:
    return ("min", ("max", value, const(low)), const(high))


def product(x: np.ndarray, near: float, rest: float) -> np.ndarray:
    with np.errstate(over="ignore", invalid="ignore"):
        lesser = x * FLOAT(rest)
        if not rest:
            return x * FLOAT(near)
    return np.array([fused(a, near, b) for a, b in zip(x, lesser, strict=True)], FLOAT)


@settings(deadline=None, max_examples=60)
@given(
    st.floats(2.0**-20, 2.0**10, width=32),
    st.sampled_from([7, 127, 255]),
    st.integers(0, 2**32 - 1),
)
def test_rounded_products_are_rounded_quotients(scale: float, largest: int, seed: int) -> None:
    factors = reciprocal(scale, largest)
    assert factors is not None
    halves = (np.arange(-largest - 2, largest + 2) + 0.5).astype(FLOAT) * FLOAT(scale)
    near_halves = (halves.view(np.int32)[:, None] + np.arange(-3, 4, dtype=np.int32)).view(FLOAT)
    rng = np.random.default_rng(seed)
    anywhere = rng.integers(0, 2**32, 500, np.uint32).view(FLOAT)
    x = np.concatenate([near_halves.ravel(), anywhere[np.isfinite(anywhere)], [np.inf, -np.inf]])
    x = x.astype(FLOAT)
    with np.errstate(over="ignore"):
        quotients = x / FLOAT(scale)
    ours, exact = (
        np.clip(np.rint(q), -largest, largest) for q in (product(x, *factors), quotients)
    )
    np.testing.assert_array_equal(ours, exact)


def test_powers_of_two_are_one_product() -> None:
    assert reciprocal(0.25, 127) == (4.0, 0.0)


@pytest.mark.parametrize("scale", [0.0, -0.5, 2.0**-70, 2.0**70, float("inf"), float("nan")])
def test_scales_without_a_reciprocal(scale: float) -> None:
    assert reciprocal(scale, 127) is None


def test_clipping_comes_before_rounding() -> None:
    quotient = ("div", ACC, const(0.25))
    expected = ("round", clipped(("mul", ACC, const(4.0)), -128.0, 127.0))
    assert with_reciprocals(clipped(("round", quotient), -128.0, 127.0)) == expected
    other_order = ("max", ("min", ("round", quotient), const(127.0)), const(-128.0))
    assert with_reciprocals(other_order) == expected


def test_no_lower_bound_for_what_is_positive() -> None:
    positive = ("max", ACC, const(0.0))
    expr = clipped(("round", ("div", positive, const(0.25))), -128.0, 127.0)
    product = ("mul", positive, const(4.0))
    assert with_reciprocals(expr) == ("round", ("min", product, const(127.0)))


def rounded(value: Any, scale: float, low: float, high: float) -> Any:
    return clipped(("round", ("div", value, const(scale))), low, high)


def computed(expr: Any, x: np.ndarray) -> np.ndarray:
    """The values of an expression for the anchor's."""
    functions: dict[str, Any] = {
        "add": np.add,
        "mul": np.multiply,
        "div": np.divide,
        "max": np.maximum,
        "min": np.minimum,
        "round": np.rint,
        "fused": np.vectorize(fused, otypes=[FLOAT]),
    }
    match expr:
        case ("acc",):
            return x
        case ("const", value):
            return np.full_like(x, FLOAT(value))
        case (operation, *operands):
            return functions[operation](*(computed(operand, x) for operand in operands))
    raise AssertionError(expr)


def test_roundings_within_one_another() -> None:
    inner = rounded(ACC, 0.3, -128.0, 127.0)
    outer = rounded(("add", ("mul", inner, const(0.3)), ACC), 0.7, 0.0, 255.0)
    assert "div" not in str(with_reciprocals(outer))


def test_the_same_scale_again_only_clips() -> None:
    inner = rounded(ACC, 0.25, -128.0, 127.0)
    expr = rounded(("max", ("mul", inner, const(0.25)), const(0.0)), 0.25, -128.0, 127.0)
    product = ("mul", ACC, const(4.0))
    assert with_reciprocals(expr) == ("round", clipped(product, 0.0, 127.0))


def test_another_scale_is_one_product() -> None:
    inner = rounded(ACC, 0.25, -128.0, 127.0)
    expr = rounded(("max", ("mul", inner, const(0.25)), const(0.0)), 0.125, -128.0, 127.0)
    result = with_reciprocals(expr)
    assert result == (
        "round",
        clipped(("mul", with_reciprocals(inner), const(2.0)), 0.0, 127.0),
    )


@settings(deadline=None, max_examples=100)
@given(
    st.floats(2.0**-10, 2.0, width=32),
    st.floats(2.0**-10, 2.0, width=32),
    st.sampled_from([(-128.0, 127.0), (0.0, 255.0), (-131.0, 124.0), (-7.0, 7.0)]),
    st.sampled_from([(-128.0, 127.0), (0.0, 255.0), (3.0, 9.0)]),
    st.sampled_from([None, 0.0, 6.0]),
)
def test_chains_of_roundings(
    first: float,
    second: float,
    within: tuple[float, float],
    again: tuple[float, float],
    least: float | None,
) -> None:
    inner: Any = ("mul", rounded(ACC, first, *within), const(first))
    if least is not None:
        inner = ("max", inner, const(least))
    expr = rounded(inner, second, *again)
    x = np.linspace(-300 * first, 300 * first, 4001, dtype=FLOAT)
    np.testing.assert_array_equal(computed(with_reciprocals(expr), x), computed(expr, x))


@pytest.mark.parametrize(
    "expr",
    [
        ("div", ACC, const(0.3)),
        ("round", ("div", ACC, const(0.3))),
        ("max", ("round", ("div", ACC, const(0.3))), const(0.0)),
        clipped(("round", ("div", ACC, const(0.3))), -0.5, 127.0),
        clipped(("round", ("div", ACC, const(0.3))), -1e6, 1e6),
        clipped(("div", ACC, const(0.3)), -128.0, 127.0),
        ("div", const(0.3), ACC),
    ],
)
def test_other_quotients_stay(expr: Any) -> None:
    assert with_reciprocals(expr) == expr
