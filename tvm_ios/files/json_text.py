"""JSON from anyone: whatever is wrong with it is one kind of error."""

from __future__ import annotations

import json
from typing import Any, cast


class JsonError(ValueError):
    """Text that is not one JSON object; says what is wrong."""


def json_object(text: bytes | str) -> dict[str, Any]:
    """Parse one JSON object.

    Raises
    ------
    JsonError
        If the text is not UTF-8, no JSON, nested too deep, or something else than an object.
    """
    try:
        data = json.loads(text)
    except RecursionError:
        raise JsonError("it is nested too deep") from None
    except ValueError as error:
        # Besides JSON's own: text that is not UTF-8, and numbers of thousands of digits.
        raise JsonError(str(error)) from error
    if not isinstance(data, dict):
        raise JsonError(f"it holds a {type(data).__name__}, not an object")
    return cast(dict[str, Any], data)


def natural(data: Any) -> int:
    """A number that counts something.

    Raises
    ------
    JsonError
        If it is no integer, or below zero, or too large for 64 bits.
    """
    if isinstance(data, bool) or not isinstance(data, int) or not 0 <= data < 1 << 62:
        raise JsonError(f"{str(data)[:40]!r} where a count should be")
    return data


def naturals(data: Any) -> tuple[int, ...]:
    """Several of them; raises as :func:`natural`, and TypeError if the data is no list."""
    if not isinstance(data, (list, tuple)):
        raise TypeError(f"{str(data)[:40]!r} where a list should be")
    return tuple(map(natural, cast(list[Any], data)))
