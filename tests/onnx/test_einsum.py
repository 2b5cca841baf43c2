"""Einsum becomes matrix products that compute the same."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.fast_run import examples
from tests.onnx_sketch import Sketch, kinds, run, simplify_checked
from tvm_ios.onnx.simplify import simplify


def einsum(
    equation: str, x: tuple[int, ...], *others: tuple[int, ...], swapped: bool = False
) -> Any:
    s = Sketch(*x)
    operands = ["x", *(s.normal(*shape) for shape in others)]
    return s.model(s.op("Einsum", *(operands[::-1] if swapped else operands), equation=equation))


def test_scores_of_attention_are_one_product() -> None:
    s = Sketch(2, 5, 3, 4)
    other = s.op("Mul", "x", s.const(0.5))
    model = s.model(s.op("Einsum", "x", other, equation="bqhd,bkhd->bhqk"))
    simplified = simplify_checked(model)
    assert kinds(simplified) == ["MatMul", "Mul", "Transpose", "Transpose"]


@pytest.mark.parametrize(
    ("equation", "shapes", "expected"),
    [
        ("bij,jk->bik", [(2, 3, 4), (4, 5)], ["MatMul"]),
        ("bij,kj->bik", [(2, 3, 4), (5, 4)], ["MatMul"]),
        ("...i,ij->...j", [(2, 3, 4), (4, 5)], ["MatMul"]),
        (" ij , jk ", [(3, 4), (4, 5)], ["MatMul"]),
        ("ij->ji", [(3, 4)], ["Transpose"]),
        ("ijk->k", [(2, 3, 4)], ["ReduceSum"]),
        ("ij->ij", [(3, 4)], ["Identity"]),
        ("i,j->ji", [(3,), (4,)], ["MatMul", "Reshape", "Transpose"]),
        ("bi,ijk,bk->bj", [(2, 3), (3, 4, 5), (2, 5)], ["MatMul", "MatMul", "Reshape", "Reshape"]),
        ("a...,...b->ab...", [(2, 3, 4), (3, 4, 5)], None),
        ("ii->i", [(4, 4)], ["Einsum"]),
        ("...i,...i->...", [(2, 3, 4), (2, 3, 4)], None),
    ],
)
def test_what_it_becomes(
    equation: str, shapes: list[tuple[int, ...]], expected: list[str] | None
) -> None:
    model = einsum(equation, *shapes)
    simplified = simplify_checked(model)
    if expected is not None:
        assert kinds(simplified) == expected


def test_before_opset_13_axes_are_attributes() -> None:
    s = Sketch(2, 3, 4, opset=12)
    model = s.model(s.op("Einsum", "x", s.normal(4, 5), equation="aij,jk->ik"))
    simplified = simplify_checked(model)
    assert "Einsum" not in kinds(simplified)


@st.composite
def equations(draw: st.DrawFn) -> tuple[str, list[tuple[int, ...]], bool]:
    """One to three operands of distinct axes, and any of these in the result."""
    extents = {letter: draw(st.integers(1, 4)) for letter in "abcdef"}
    count = draw(st.integers(1, 3))
    terms = [
        "".join(draw(st.permutations(sorted(draw(st.sets(st.sampled_from("abcdef"), max_size=4))))))
        for _ in range(count)
    ]
    letters = sorted(set("".join(terms)))
    result = "".join(x for x in draw(st.permutations(letters)) if draw(st.booleans()))
    shapes = [tuple(extents[letter] for letter in term) for term in terms]
    return ",".join(terms) + "->" + result, shapes, draw(st.booleans())


@examples(60)
@given(equations())
def test_any_einsum_computes_the_same(drawn: tuple[str, list[tuple[int, ...]], bool]) -> None:
    equation, shapes, swapped = drawn
    left, _, result = equation.partition("->")
    terms = left.split(",")
    equation = f"{','.join(terms[::-1] if swapped else terms)}->{result}"
    simplified = simplify(einsum(equation, *shapes, swapped=swapped))
    assert "Einsum" not in kinds(simplified)
    (output,) = run(simplified)
    rng = np.random.default_rng(0)
    s = Sketch(*shapes[0])
    weights = [s.rng.standard_normal(shape).astype(np.float32) for shape in shapes[1:]]
    arrays = [rng.standard_normal(shapes[0], dtype=np.float32), *weights]
    expected = np.einsum(equation, *(arrays[::-1] if swapped else arrays))
    assert output.shape == expected.shape
    assert np.abs(output - expected).max(initial=0) <= 1e-4 * max(
        1, np.abs(expected).max(initial=0)
    )
