"""Operators of ONNX at NaN, infinities, the largest numbers and both zeros."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from itertools import islice

import pytest

from tests.edges.running import Case, wrong_cases
from tests.edges.table import (
    BINARY,
    OTHERWISE,
    REDUCTIONS,
    SENSITIVE,
    UNARY,
    UNSIGNED_ZEROS,
    Operator,
)
from tests.fast_run import is_fast
from tests.onnx_sketch import Sketch

Cases = Mapping[str, Case]


def of(operator: Operator, *values: str) -> Case:
    return lambda s: operator(s, *values)


def after_convolution(operator: Operator) -> Case:
    """Where it runs in the kernel of what is before it."""

    def case(s: Sketch) -> str:
        image = s.op("Unsqueeze", s.op("Unsqueeze", "x", s.const([0])), s.const([0]))
        return operator(s, s.op("Conv", image, s.const([[[[1.0]]]] * 2)))

    return case


def some(cases: Mapping[str, Case]) -> Cases:
    """Every fourth in a fast run."""
    return dict(islice(cases.items(), 0, None, 4 if is_fast() else 1))


SINGLE: dict[str, Callable[[], Cases]] = {
    "unary": lambda: {name: of(f, "x") for name, f in UNARY.items()},
    "fused": lambda: some({name: after_convolution(f) for name, f in UNARY.items()}),
    "binary": lambda: {name: of(f, "x", "y") for name, f in BINARY.items()},
    "of one value": lambda: {name: of(f, "x", "x") for name, f in BINARY.items()},
    "reductions": lambda: {name: of(f, "rows") for name, f in REDUCTIONS.items()},
}


@pytest.mark.parametrize("kind", SINGLE)
def test_single_operators(kind: str) -> None:
    assert wrong_cases(SINGLE[kind]()) == {}


def pair(first: Operator, second: Operator, *values: str, beside: str = "") -> Case:
    """The second operator of the first one's result; of this twice, if ``beside`` is ``twice``."""

    def case(s: Sketch) -> str:
        value = first(s, *values)
        more = {"": (), "twice": (value,)}.get(beside, (beside,))
        return second(s, value, *more)

    return case


PAIRS: Mapping[str, tuple[Mapping[str, Operator], Mapping[str, Operator], tuple[str, ...], str]] = {
    "unary(unary)": (UNARY, UNARY, ("x",), ""),
    "unary(binary)": (BINARY, UNARY, ("x", "y"), ""),
    "unary(reduction)": (REDUCTIONS, UNARY, ("rows",), ""),
    "reduction(unary)": (UNARY, REDUCTIONS, ("rows",), ""),
    "binary(unary(x), y)": (UNARY, BINARY, ("x",), "y"),
    "binary(unary(x), x)": (UNARY, BINARY, ("x",), "x"),
    "binary(binary(x, y), y)": (BINARY, BINARY, ("x", "y"), "y"),
    "binary of one result": (BINARY, BINARY, ("x", "y"), "twice"),
}


def pairs(kind: str) -> dict[str, Case]:
    firsts, seconds, values, beside = PAIRS[kind]
    return {
        f"{second} of {first}, {kind}": pair(f, g, *values, beside=beside)
        for first, f in firsts.items()
        for second, g in seconds.items()
        if (second not in SENSITIVE or first not in UNSIGNED_ZEROS)
        and (first, second) not in OTHERWISE
    }


def test_some_pairs() -> None:
    every = {name: case for kind in PAIRS for name, case in pairs(kind).items()}
    assert wrong_cases(dict(islice(every.items(), 0, None, 211))) == {}


@pytest.mark.slow
@pytest.mark.parametrize("kind", PAIRS)
def test_all_pairs(kind: str) -> None:
    # Models of thousands of operators take longer to read than so many small ones.
    cases = iter(pairs(kind).items())
    wrong: dict[str, str] = {}
    while part := dict(islice(cases, 300)):
        wrong |= wrong_cases(part)
    assert wrong == {}
