"""Read parsed JSON as values of dataclasses; :func:`dataclasses.asdict` is the way back."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
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
    return cast(T, _reader(kind)(data))


@cache
def _reader(kind: Any) -> Callable[[Any], Any]:
    """Return the function that reads values of a type."""
    origin, inner = get_origin(kind), get_args(kind)
    if is_dataclass(kind):
        return _fields_reader(kind)
    if origin in (Union, UnionType):
        (other,) = (one for one in inner if one is not NoneType)
        return lambda data: None if data is None else _reader(other)(data)
    if origin in (tuple, Sequence):
        return _items_reader(inner, is_fixed=origin is tuple and inner[-1] is not ...)
    if origin is Mapping:
        return lambda data: {
            name: _read_named(name, _reader(inner[1]), value)
            for name, value in _of_type(dict, data, "an object").items()
        }
    if origin is Annotated:
        return lambda data: _one_of(inner[1], _of_type(int, data, "an integer"))
    if kind is int:
        return natural
    if kind is float:
        return lambda data: float(_of_type((int, float), data, "a number"))
    if kind is bool:
        return lambda data: _of_type(bool, data, "true or false")
    if kind is Path:
        return lambda data: Path(_of_type(str, data, "a text"))
    return lambda data: _of_type(str, data, "a text")


def _items_reader(inner: tuple[Any, ...], *, is_fixed: bool) -> Callable[[Any], Any]:
    readers = tuple(map(_reader, inner if is_fixed else inner[:1]))

    def read(data: Any) -> Any:
        items = cast("Sequence[Any]", _of_type((list, tuple), data, "a list"))
        # Logs of measurements have millions of these.
        if not is_fixed and inner[0] is float and set(map(type, items)) == {float}:
            return tuple(items)
        of_items = readers if is_fixed else readers * len(items)
        if len(items) != len(of_items):
            raise JsonError(f"{len(items)} values where {len(of_items)} should be")
        return tuple(reader(item) for reader, item in zip(of_items, items, strict=True))

    return read


def _fields_reader(kind: Any) -> Callable[[Any], Any]:
    hints = get_type_hints(kind, include_extras=True)
    read_fields = [field for field in fields(kind) if field.init]
    optional = {f.name for f in read_fields if (f.default, f.default_factory) != (MISSING,) * 2}
    names = [field.name for field in read_fields]

    def read(data: Any) -> Any:
        given = _of_type((dict, list, tuple), data, "an object")
        if not isinstance(given, dict):
            if len(given) > len(names):
                raise JsonError(f"{len(given)} values where {len(names)} should be")
            given = dict(zip(names, given, strict=False))
        values: dict[str, Any] = {}
        for name in names:
            if name in given:
                # A class may hold others of its own.
                values[name] = _read_named(name, _reader(hints[name]), given[name])
            elif name not in optional:
                raise JsonError(repr(name))
        return kind(**values)

    return read


def _read_named(name: str, reader: Callable[[Any], Any], data: Any) -> Any:
    try:
        return reader(data)
    except (ValueError, OverflowError) as error:
        raise JsonError(f"{name!r}: {error}") from error


def _one_of(numbers: range, number: int) -> int:
    if number not in numbers:
        raise JsonError(f"{number} where one of {numbers} should be")
    return number


def _of_type(kinds: type | tuple[type, ...], data: Any, described: str) -> Any:
    if not isinstance(data, kinds) or (isinstance(data, bool) and kinds is not bool):
        raise JsonError(f"{str(data)[:40]!r} where {described} should be")
    return data
