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
