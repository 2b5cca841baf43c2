"""Ranges of the extents of inputs, as users write them, and the symbols that they become."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from tvm_ios.shapes.extent import (
    Symbol,
    at_values,
    bounds,
    evaluate,
    extent_of,
    is_open,
    symbols_of,
)
from tvm_ios.shapes.input_shapes import Extent, InputShapeError, bound_dimensions

#: A number, or a range with perhaps a step.
_EXTENT = r"\d+(?:\.\.\d+(?::\d+)?)?"
#: The name is as short as can be: a step has a colon, too.
_SHAPE = re.compile(rf"(?P<name>.+?):(?P<extents>{_EXTENT}(?:,{_EXTENT})*)")
#: Numbers at which undecided comparisons are answered, a symbol each: unlike one another, and not
#: special.
_HINTS = (7, 29, 19, 13, 23, 11)


@dataclass(frozen=True, slots=True)
class Range:
    """The numbers ``least``, ``least + step``, ... up to ``most``."""

    least: int
    most: int
    step: int = 1

    def __str__(self) -> str:
        return f"{self.least}..{self.most}" + (f":{self.step}" if self.step > 1 else "")


Ranges = Mapping[str, Sequence[int | Range]]


def has_range(texts: Iterable[str]) -> bool:
    """Return whether a shape that a user gives has a range."""
    return any(".." in text for text in texts)


def parse_ranges(texts: Iterable[str]) -> dict[str, tuple[int | Range, ...]]:
    """Parse texts such as ``input_ids:1..32,1..512`` and ``image:1,3,64..1024:32,64..1024:32``.

    Raise InputShapeError if one has another form, a range is empty, or an input is named twice.
    """
    ranges: dict[str, tuple[int | Range, ...]] = {}
    for text in texts:
        found = _SHAPE.fullmatch(text)
        if found is None:
            raise InputShapeError(
                f"{text!r} is no range of shapes: write NAME:1..32,1..512, with a step as in "
                "64..1024:32"
            )
        name = found["name"]
        if name in ranges:
            raise InputShapeError(f"the shape of input {name!r} is given twice")
        ranges[name] = tuple(_parsed(text, extent) for extent in found["extents"].split(","))
    return ranges


def open_shapes(
    ranges: Ranges, declared: Mapping[str, Sequence[Extent] | None]
) -> dict[str, tuple[int, ...]]:
    """Return the shapes of inputs with an expression for each range.

    Dimensions of one name in the model are one symbol, also those of inputs that are not given;
    others get a symbol each. ``declared`` has the dimensions of each input. Raise InputShapeError
    if an input is unknown, the number of dimensions differs, a number contradicts the model, or
    dimensions of one name have different ranges.
    """
    meant, by_name = bound_dimensions(declared, ranges)
    opened: dict[str, int] = {}
    shapes: dict[str, tuple[int, ...]] = {}
    for name, given in ranges.items():
        extents = meant[name] or [None] * len(given)
        shape: list[int] = []
        for axis, (extent, wanted) in enumerate(zip(extents, given, strict=True)):
            dimension = extent if isinstance(extent, str) else f"{name}.{axis}"
            if dimension not in opened:
                symbols = sum(map(is_open, opened.values()))
                opened[dimension] = _opened(dimension, wanted, symbols)
            shape.append(opened[dimension])
        shapes[name] = tuple(shape)
    for name, extents in meant.items():
        if name not in shapes and extents and all(extent in by_name for extent in extents):
            shapes[name] = tuple(opened[str(extent)] for extent in extents)
    return shapes


def shapes_at(
    shapes: Mapping[str, tuple[int, ...]], numbers: Sequence[int]
) -> dict[str, tuple[int, ...]]:
    """Return open shapes of inputs, by name, where their open dimensions are numbers, in order.

    Dimensions of one symbol are given once. Raise InputShapeError if there are more or fewer
    numbers, or one is not in its range.
    """
    opened: dict[Symbol, int] = {}
    for extent in (extent for shape in shapes.values() for extent in shape):
        for symbol in symbols_of(extent):
            opened.setdefault(symbol, extent)
    given = "x".join(map(str, numbers))
    if len(numbers) != len(opened):
        told = " and ".join(str(range_of(extent)) for extent in opened.values())
        raise InputShapeError(f"{given} has no number for each open dimension: they are {told}")
    values: dict[str, int] = {}
    for (symbol, extent), number in zip(opened.items(), numbers, strict=True):
        values[symbol.name] = value_of(symbol, extent, number)
        inside = symbol.least <= values[symbol.name] <= symbol.most
        if not inside or evaluate(extent, values) != number:
            raise InputShapeError(
                f"{given} is no shape of the range: {range_of(extent)} has no {number}"
            )
    return {name: at_values(shape, values) for name, shape in shapes.items()}


def typical_values(symbol: Symbol) -> tuple[int, int, int]:
    """Return the least, the geometric middle and the most values of a symbol."""
    return symbol.least, round((symbol.least * symbol.most) ** 0.5), symbol.most


def typical_shapes(symbols: Sequence[Symbol]) -> list[dict[str, int]]:
    """Return three shapes: all symbols have their least, middle or most values."""
    names = [symbol.name for symbol in symbols]
    of_symbols = [typical_values(symbol) for symbol in symbols]
    return [dict(zip(names, [of[n] for of in of_symbols], strict=True)) for n in range(3)]


def value_of(symbol: Symbol, extent: int, number: int) -> int:
    """Return the value at which an input's extent of one symbol is a number, rounded down."""
    # Extents of inputs are multiples of one symbol, and a number.
    first, second = (evaluate(extent, {symbol.name: n}) for n in (0, 1))
    return (number - first) // (second - first)


def range_of(extent: int) -> Range:
    """Return the range of an extent, whose step is the factor of its only symbol.

    The range of another extent is all numbers between its bounds.
    """
    least, most = bounds(extent)
    symbols = symbols_of(extent)
    if len(symbols) == 1 and symbols[0].least < symbols[0].most:
        (symbol,) = symbols
        first, second = (evaluate(extent, {symbol.name: symbol.least + n}) for n in (0, 1))
        if most - least == (second - first) * (symbol.most - symbol.least):
            return Range(least, most, second - first)
    return Range(least, most)


def _parsed(text: str, extent: str) -> int | Range:
    least, _, rest = extent.partition("..")
    if not rest:
        return int(least)
    most, _, step = rest.partition(":")
    found = Range(int(least), int(most), int(step or 1))
    if found.step < 1 or found.least < 1 or found.least > found.most:
        raise InputShapeError(f"{text!r} has the range {found}, which is empty or begins below 1")
    if found.least + found.step > found.most:
        return found.least
    return found


def _opened(dimension: str, wanted: int | Range, number: int) -> int:
    """Return the extent of a dimension: a symbol, a multiple of one where there is a step."""
    if not isinstance(wanted, Range):
        return wanted
    step, offset = wanted.step, wanted.least % wanted.step
    least, most = wanted.least // step, (wanted.most - offset) // step
    hint = min(max(_HINTS[number % len(_HINTS)], least), most)
    name = dimension if step == 1 else f"({dimension}/{step})"
    return extent_of(Symbol(name, least, most, hint), step) + offset
