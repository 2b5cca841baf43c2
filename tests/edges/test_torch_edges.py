"""Operators of ``torch.export`` at NaN, infinities, the largest numbers and both zeros."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping
from itertools import islice
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch")

from relay_passes.load import load_model  # noqa: E402
from tests.edges.running import difference, ours, without_subnormals  # noqa: E402
from tests.edges.table import numbers  # noqa: E402

functional = torch.nn.functional
Function = Callable[..., Any]

UNARY: dict[str, Function] = {
    **{
        name: getattr(torch, name)
        for name in (
            *("abs", "atan", "ceil", "cos", "erf", "exp", "floor", "log", "log1p", "neg"),
            *("reciprocal", "relu", "round", "rsqrt", "sigmoid", "sign", "sin", "sqrt", "square"),
            *("tan", "tanh", "trunc"),
        )
    },
    **{
        name: getattr(functional, name)
        for name in (
            # Of the largest numbers torch's hardswish makes an overflow, and ONNX's none.
            *("celu", "elu", "hardsigmoid", "hardtanh", "leaky_relu", "mish"),
            *("relu6", "selu", "silu", "softplus", "softsign"),
        )
    },
    "clamp": lambda x: torch.clamp(x, -1.0, 1.0),
    "clamp below": lambda x: torch.clamp(x, min=-1.0),
    "isnan": lambda x: torch.isnan(x).float(),
    "isinf": lambda x: torch.isinf(x).float(),
    "is itself": lambda x: (x == x).float(),
    "is not itself": lambda x: (x != x).float(),
    "scrubbed": lambda x: torch.where(x != x, 0.0, x),
    "nan_to_num": torch.nan_to_num,
    **{f"pow {p}": (lambda x, p=p: torch.pow(x, p)) for p in (0.0, 0.5, 1.0, 2.0, 3.0, -1.0)},
    **{f"mul {p}": (lambda x, p=p: x * p) for p in (0.0, 1.0, -1.0)},
    "div 0": lambda x: x / 0.0,
    "0 div": lambda x: 0.0 / x,
}


def _told(name: str) -> Function:
    """A truth value or an index as a number."""
    return lambda *values, **options: getattr(torch, name)(*values, **options).float()


def _of_rows(function: Function) -> Function:
    return lambda x: function(x, dim=-1, keepdim=True)


BINARY: dict[str, Function] = {
    **{
        name: getattr(torch, name)
        for name in ("add", "sub", "mul", "div", "maximum", "minimum", "pow")
    },
    **{name: _told(name) for name in ("eq", "ne", "lt", "le", "gt", "ge")},
    "where": lambda x, y: torch.where(x < y, x, y),
    "not less": lambda x, y: torch.logical_not(x < y).float(),
}
REDUCTIONS: dict[str, Function] = {
    **{name: _of_rows(getattr(torch, name)) for name in ("sum", "mean")},
    **{name: _of_rows(_told(name)) for name in ("argmax", "argmin")},
    "max": lambda x: torch.max(x, -1)[0],
    "where the largest is": lambda x: torch.max(x, -1)[1].float(),
    "softmax": lambda x: torch.softmax(x, -1),
    "log_softmax": lambda x: torch.log_softmax(x, -1),
    "norm": lambda x: torch.linalg.vector_norm(x, dim=-1),
}


class Together(torch.nn.Module):
    """All cases, an output each."""

    def __init__(self, cases: Mapping[str, Function]) -> None:
        super().__init__()
        self.cases = cases

    def forward(self, x: Any, y: Any, rows: Any) -> Any:
        return tuple(case(x, y, rows) for case in self.cases.values())


def wrong_cases(cases: Mapping[str, Function], folder: Path) -> dict[str, str]:
    inputs = tuple(map(torch.from_numpy, numbers().values()))
    module = Together(cases)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        torch.export.save(torch.export.export(module, inputs), str(folder / "model.pt2"))
    computed = ours(load_model(str(folder / "model.pt2")).module)
    expected = [output.numpy() for output in without_subnormals(lambda: module(*inputs))]
    found = map(difference, computed, expected)
    return {name: how for name, how in zip(cases, found, strict=True) if how}


def pair(first: Function, second: Function, beside: str) -> Function:
    """The second function of the first one's result, and of ``y`` or of itself."""

    def case(x: Any, y: Any, rows: Any) -> Any:
        value = first(rows if beside == "rows" else x)
        return second(value, *{"y": (y,), "itself": (value,)}.get(beside, ()))

    return case


PAIRS: Mapping[str, tuple[Mapping[str, Function], str]] = {
    "unary(unary)": (UNARY, "alone"),
    "binary(unary(x), y)": (BINARY, "y"),
    "binary of one result": (BINARY, "itself"),
    "reduction(unary)": (REDUCTIONS, "rows"),
}
#: Of these a zero's sign shows, or a rounding of their operand becomes large.
SENSITIVE = {"cos", "sin", "tan", "reciprocal", "rsqrt", "pow -1.0", "div", "pow"}
#: Of these a subnormal number, a rounding near one, and a tie of numbers near zero decide.
ROUNDED = {
    *("log of exp, unary(unary)", "log1p of erf, unary(unary)"),
    "argmin of softplus, reduction(unary)",
}


def pairs(kind: str) -> dict[str, Function]:
    seconds, beside = PAIRS[kind]
    return {
        f"{second} of {first}, {kind}": pair(f, g, beside)
        for first, f in UNARY.items()
        for second, g in seconds.items()
        if second not in SENSITIVE
    }


SINGLE: dict[str, Callable[[], dict[str, Function]]] = {
    "unary": lambda: {n: (lambda x, y, r, f=f: f(x)) for n, f in UNARY.items()},
    "binary": lambda: {n: (lambda x, y, r, f=f: f(x, y)) for n, f in BINARY.items()},
    "of one value": lambda: {n: (lambda x, y, r, f=f: f(x, x)) for n, f in BINARY.items()},
    "reductions": lambda: {n: (lambda x, y, r, f=f: f(r)) for n, f in REDUCTIONS.items()},
}


@pytest.mark.parametrize("kind", SINGLE)
def test_single_functions(kind: str, tmp_path: Path) -> None:
    assert wrong_cases(SINGLE[kind](), tmp_path) == {}


def test_some_pairs(tmp_path: Path) -> None:
    every = {name: case for kind in PAIRS for name, case in pairs(kind).items()}
    assert wrong_cases(dict(islice(every.items(), 0, None, 101)), tmp_path) == {}


@pytest.mark.slow
@pytest.mark.parametrize("kind", PAIRS)
def test_all_pairs(kind: str, tmp_path: Path) -> None:
    cases = iter(pairs(kind).items())
    wrong: dict[str, str] = {}
    while part := dict(islice(cases, 200)):
        wrong |= wrong_cases(part, tmp_path)
    assert {name: how for name, how in wrong.items() if name not in ROUNDED} == {}
