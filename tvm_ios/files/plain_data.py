"""Read parsed JSON as values of dataclasses; :func:`dataclasses.asdict` is the way back."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import MISSING, fields, is_dataclass
from functools import cache
from pathlib import Path
from types import NoneType, UnionType
from typing import Annotated, Any, TypeVar, Union, cast, get_args, get_origin, get_type_hints

from tvm_ios.files.json_text import JsonError, natural

T = TypeVar("T")


def read_as(kind: type[T], data: Any) -> T:
    """Return parsed JSON as a value of a type; raise JsonError, which names the field, otherwise.

    The type is a dataclass (in JSON an object with its fields as keys, of which others are ignored,
    or a list in their order), a tuple, a sequence, a mapping with texts as keys, a path, a union
    with None, ``float``, ``str``, ``bool``, ``int`` (a count) or ``Annotated[int, range(...)]``; so
    is what it holds.
    """
    return cast(T, _read(kind, data))


def _read(kind: Any, data: Any) -> Any:
    origin, inner = get_origin(kind), get_args(kind)
    if is_dataclass(kind):
        return _read_fields(kind, data)
    if origin in (Union, UnionType):
        (other,) = (one for one in inner if one is not NoneType)
        return None if data is None else _read(other, data)
    if origin in (tuple, Sequence):
        items = cast("Sequence[Any]", _of_type((list, tuple), data, "a list"))
        kinds = inner if origin is tuple and inner[-1] is not ... else inner[:1] * len(items)
        if len(items) != len(kinds):
            raise JsonError(f"{len(items)} values where {len(kinds)} should be")
        # Logs of measurements have millions of these.
        if inner[0] is float and set(map(type, items)) == {float}:
            return tuple(items)
        return tuple(map(_read, kinds, items))
    if origin is Mapping:
        entries = _of_type(dict, data, "an object")
        return {name: _read_named(name, inner[1], value) for name, value in entries.items()}
    if origin is Annotated:
        number = _of_type(int, data, "an integer")
        if number not in inner[1]:
            raise JsonError(f"{number} where one of {inner[1]} should be")
        return number
    if kind is int:
        return natural(data)
    if kind is float:
        return float(_of_type((int, float), data, "a number"))
    if kind is bool:
        return _of_type(bool, data, "true or false")
    text = _of_type(str, data, "a text")
    return Path(text) if kind is Path else text


def _read_fields(kind: Any, data: Any) -> Any:
    kinds, defaults = _fields(kind)
    given = _of_type((dict, list, tuple), data, "an object")
    if not isinstance(given, dict):
        if len(given) > len(kinds):
            raise JsonError(f"{len(given)} values where {len(kinds)} should be")
        given = dict(zip(kinds, given, strict=False))
    values: dict[str, Any] = {}
    for name, field_kind in kinds.items():
        if name in given:
            values[name] = _read_named(name, field_kind, given[name])
        elif name not in defaults:
            raise JsonError(repr(name))
    return kind(**values)


def _read_named(name: str, kind: Any, data: Any) -> Any:
    try:
        return _read(kind, data)
    except (ValueError, OverflowError) as error:
        raise JsonError(f"{name!r}: {error}") from error


def _of_type(kinds: type | tuple[type, ...], data: Any, described: str) -> Any:
    if not isinstance(data, kinds) or (isinstance(data, bool) and kinds is not bool):
        raise JsonError(f"{str(data)[:40]!r} where {described} should be")
    return data


@cache
def _fields(kind: Any) -> tuple[dict[str, Any], frozenset[str]]:
    """Return the types of a dataclass's fields by name, and the fields that have a default."""
    hints = get_type_hints(kind, include_extras=True)
    optional = (f.name for f in fields(kind) if (f.default, f.default_factory) != (MISSING,) * 2)
    return {f.name: hints[f.name] for f in fields(kind) if f.init}, frozenset(optional)
