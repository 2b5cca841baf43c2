"""Parse untrusted JSON; every fault of the text raises JsonError."""

from __future__ import annotations

import json
from typing import Any, cast


class JsonError(ValueError):
    """An error in JSON text: it is malformed, or does not hold what is expected."""


def json_object(text: bytes | str) -> dict[str, Any]:
    """Parse one JSON object.

    Raise JsonError if the text is not UTF-8, not JSON, nested too deep, or not an object.
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
    """Return a value of parsed JSON that must be a count.

    Raise JsonError unless it is an integer of at least zero and below 2**62.
    """
    if isinstance(data, bool) or not isinstance(data, int) or not 0 <= data < 1 << 62:
        raise JsonError(f"{str(data)[:40]!r} where a count should be")
    return data


def naturals(data: Any) -> tuple[int, ...]:
    """Return a list of counts as a tuple; raise TypeError if the data is no list."""
    if not isinstance(data, (list, tuple)):
        raise TypeError(f"{str(data)[:40]!r} where a list should be")
    return tuple(map(natural, cast(list[Any], data)))
