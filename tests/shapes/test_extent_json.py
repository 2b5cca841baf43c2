"""Extents as plain data."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tvm_ios.errors import UserError
from tvm_ios.program.program import BufferType
from tvm_ios.shapes.extent import Symbol, at_hint, at_values, evaluate, extent_of, symbols_in
from tvm_ios.shapes.extent_json import ExpressionReader, ExpressionTable

BATCH, LENGTH = Symbol("batch", 1, 32, 4), Symbol("length", 1, 512, 128)
B, L = extent_of(BATCH), extent_of(LENGTH)


@st.composite
def expressions(draw: st.DrawFn) -> int:
    extent = draw(st.sampled_from([B, L, 3]))
    for _ in range(draw(st.integers(0, 6))):
        kind, other = draw(st.sampled_from("+-*/")), draw(st.sampled_from([B, L, 1, 5, 16]))
        if kind == "/":
            extent = extent // draw(st.integers(1, 17))
        else:
            extent = {"+": extent + other, "-": extent - other, "*": extent * other}[kind]
    return extent


@given(st.lists(expressions(), min_size=1), st.integers(1, 32), st.integers(1, 512))
def test_expressions_are_read_as_they_were_written(
    extents: list[int], batch: int, length: int
) -> None:
    table = ExpressionTable()
    references = [table.reference(extent) for extent in extents if not isinstance(extent, int)]
    reader = ExpressionReader(json.loads(json.dumps(table.to_json())))
    read = [reader.extent(reference) for reference in references]
    values = {"batch": batch, "length": length}
    opened = [extent for extent in extents if not isinstance(extent, int)]
    assert read == opened
    assert [evaluate(e, values) for e in read] == [evaluate(e, values) for e in opened]


def test_equal_expressions_are_written_once() -> None:
    table = ExpressionTable()
    padded = (L + 15) // 16 * 16
    assert table.references((padded, 7, (B, padded))) == ("e2", 7, ("s1", "e2"))
    rows = table.to_json()["expressions"]
    assert rows == [["sum", [15], [1, "s0"]], ["floor", "e0", 16], ["sum", [16, "e1"]]]


@pytest.mark.parametrize(
    "data",
    [
        {},
        {"symbols": [["a", 1, 2, 3]], "expressions": []},
        {"symbols": [["a", 1, 2, 1], ["a", 1, 2, 1]], "expressions": []},
        {"symbols": [], "expressions": [["sum", [1, "e0"]]]},
        {"symbols": [], "expressions": [["product", 1]]},
        {"symbols": [["a", 1, 2, 1]], "expressions": [["floor", "s0", 0]]},
    ],
)
def test_damaged_tables_are_refused(data: dict[str, object]) -> None:
    with pytest.raises(UserError, match="table of expressions"):
        ExpressionReader(data)


def test_plain_data_at_values_and_at_the_hint() -> None:
    kind = BufferType((B, L, 384))
    assert symbols_in((kind, "text", 3)) == (BATCH, LENGTH)
    assert at_values(kind, {"batch": 2, "length": 7}) == BufferType((2, 7, 384))
    assert at_hint((kind, 1)) == (BufferType((4, 128, 384)), 1)
    assert at_hint(kind).nbytes == 4 * 128 * 384 * 4
