"""Any text is one JSON object or one kind of error."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.refusals import refused
from tvm_ios.files.json_text import JsonError, json_object, natural, naturals


@pytest.mark.parametrize(
    ("text", "named"),
    [
        (b"", "line 1 column 1"),
        (b"{", "line 1 column 2"),
        (b"[]", "list"),
        (b"7", "int"),
        (b"[" * 100_000, "nested"),
        (b'{"a":' * 100_000, "nested"),
        (b"\xff\xfe\x00", "codec"),
        (b"\x80", "codec"),
        (b'{"a": ' + b"9" * 5000 + b"}", "4300 digits"),
    ],
)
def test_what_is_no_object(text: bytes, named: str) -> None:
    with refused(JsonError, named):
        json_object(text)


@given(st.binary(max_size=40) | st.text(max_size=40))
def test_any_text(text: bytes | str) -> None:
    try:
        assert isinstance(json_object(text), dict)
    except JsonError as error:
        assert str(error)  # noqa: PT017


@given(st.dictionaries(st.text(), st.integers() | st.text()))
def test_objects_come_back(data: dict[str, Any]) -> None:
    assert json_object(json.dumps(data)) == data


@pytest.mark.parametrize("data", [-1, 1.0, True, None, "1", float("nan"), 1 << 62, [1]])
def test_what_is_no_count(data: Any) -> None:
    with refused(JsonError, "count"):
        natural(data)
    with refused(JsonError, "count"):
        naturals([1, data])


@pytest.mark.parametrize("data", [1, "12", None, {"a": 1}])
def test_what_is_no_list(data: Any) -> None:
    with refused(TypeError, "list"):
        naturals(data)
    assert naturals([0, 7]) == (0, 7)
