"""Checking the values of a TOML file; each error is one sentence that names the key."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import Any, TypeGuard, TypeVar, cast

from tvm_ios.errors import UserError, nearest

T = TypeVar("T")


class SweepError(UserError):
    """Raised for a sweep that cannot be done as written; names the key and the value."""


def table(value: Any, key: str, allowed: Collection[str]) -> Mapping[str, Any]:
    """Return a value as a table that has only allowed keys, or raise SweepError.

    The error names the allowed key that is nearest to an unknown one.
    """
    if not isinstance(value, dict):
        raise SweepError(f"{key} is {value!r}: write a table")
    entries = cast(dict[str, Any], value)
    for name in entries:
        require_known(name, allowed, f"a key of {key}")
    return entries


def require_known(name: str, allowed: Collection[str], what: str) -> str:
    """Return a name if it is allowed, or raise SweepError that names the nearest allowed one."""
    if name in allowed:
        return name
    raise SweepError(f"{name!r} is not {what}: use {', '.join(allowed)}{nearest(name, allowed)}")


def is_list(value: Any) -> TypeGuard[list[Any]]:
    """Return whether a value is a list, of anything."""
    return isinstance(value, list)


def list_of(
    read: Callable[[Any, str], T], value: Any, key: str, *, repeated: bool = False
) -> tuple[T, ...]:
    """Return a list's values, each checked by ``read``, or raise SweepError.

    The list has at least one value, and none twice unless ``repeated``.
    """
    if not is_list(value) or not value:
        raise SweepError(f"{key} is {value!r}: write a list of one value or more")
    values = tuple(read(item, key) for item in value)
    for place, item in enumerate(values):
        if not repeated and item in values[:place]:
            raise SweepError(f"{key} has {value[place]!r} twice: leave out one")
    return values


def text(value: Any, key: str) -> str:
    """Return a value that is a text and not empty, or raise SweepError."""
    if not isinstance(value, str) or not value:
        raise SweepError(f"{key} has {value!r}: write a name in quotation marks")
    return value


def count(value: Any, key: str) -> int:
    """Return a value that is a whole number of at least 1, or raise SweepError."""
    if isinstance(value, bool) or not isinstance(value, int) or value < 1:
        raise SweepError(f"{key} has {value!r}: write whole numbers from 1 on")
    return value


def seconds(value: Any, key: str) -> float:
    """Return a value that is a number above 0 as seconds, or raise SweepError."""
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not value > 0:
        raise SweepError(f"{key} is {value!r}: write seconds, above 0")
    return float(value)
