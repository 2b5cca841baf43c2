"""How far two values agree, and rows as plain data."""

from __future__ import annotations

import pytest

from benchmarks.papers.row import Agreement, How, Row, Value, shown


def row(published: Value | None, ours: Value | None, **more: object) -> Row:
    return Row("x", published, ours, "ms", How.COUNTED, **more)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("published", "ours", "neutral", "agreement"),
    [
        (4.0, 4.0, None, Agreement.NEAR),
        (4.0, 4.4, None, Agreement.NEAR),
        (4.0, 3.6, None, Agreement.NEAR),
        (4.0, 4.5, None, Agreement.ROUGH),
        (4.0, 3.0, None, Agreement.ROUGH),
        (4.0, 5.01, None, Agreement.NO),
        (-4.0, -4.3, 0.0, Agreement.NEAR),
        (1.5, 1.05, 1.0, Agreement.DIRECTION),
        (1.5, 0.95, 1.0, Agreement.NO),
        (0.8, 0.3, 1.0, Agreement.DIRECTION),
        (1.5, 1.0, 1.0, Agreement.NO),
        (0, 0, None, Agreement.NEAR),
        (0, 1, None, Agreement.NO),
        ("nearer to the input", "nearer to the input", None, Agreement.NEAR),
        ("30000+", 12.0, None, Agreement.NO),
        (None, 3.0, None, Agreement.NONE),
        (3.0, None, None, Agreement.NONE),
    ],
)
def test_agreement(
    published: Value | None, ours: Value | None, neutral: float | None, agreement: Agreement
) -> None:
    assert row(published, ours, neutral=neutral).agreement is agreement


def test_what_must_not_be_compared_is_not() -> None:
    assert row(4.0, 4.0, comparable=False, note="other hardware").agreement is Agreement.NONE


def test_rows_are_plain_data_and_back() -> None:
    made = row(4.03, 3.9, device="v100", neutral=1.0, note="why")
    data = made.to_json()
    assert data["agreement"] == "within 10 %"
    assert data["how"] == "counted"
    assert Row.from_json(data) == made


@pytest.mark.parametrize(
    ("value", "text"),
    [(None, ""), ("x", "x"), (995_977, "995,977"), (9.2e22, "9.2e+22"), (0.12345, "0.1235")],
)
def test_values_as_people_read_them(value: Value | None, text: str) -> None:
    assert shown(value) == text
