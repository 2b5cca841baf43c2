"""Resolve the shapes of a model's inputs from what it declares and what the user gives."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import TypeVar

from tvm_ios.errors import UserError

#: Shapes of inputs, by name.
Shapes = Mapping[str, Sequence[int]]

#: A number, the name of a dimension that the model leaves open, or None for one without a name.
Extent = int | str | None
#: A number, or a range of numbers.
Given = TypeVar("Given")


#: Names that exporters write for any unknown dimension; equal ones need not be equal numbers.
_UNKNOWN = re.compile(r"|\?|-1|none|unk(nown)?(_*\d+)?", re.IGNORECASE)


#: Parts of names of dimensions that are not the batch.
_NO_BATCH = re.compile(
    r"seq|len|time|frame|step|token|word|point|node|edge|box|elem|height|width|num|row|sample",
    re.IGNORECASE,
)


class InputShapeError(UserError):
    """Input shapes are missing, or the model's inputs cannot have them."""


def parse_shapes(texts: Iterable[str]) -> dict[str, tuple[int, ...]]:
    """Parse texts such as ``input:1,3,224,224``; the name stands before the last colon.

    Raise InputShapeError if one has another form, or names an input again.
    """
    shapes: dict[str, tuple[int, ...]] = {}
    for text in texts:
        name, colon, numbers = text.rpartition(":")
        if not colon or not name:
            raise InputShapeError(f"{text!r} is no shape: write NAME:1,3,224,224")
        if name in shapes:
            raise InputShapeError(f"the shape of input {name!r} is given twice")
        try:
            shapes[name] = tuple(int(number) for number in numbers.split(",")) if numbers else ()
        except ValueError:
            raise InputShapeError(
                f"{text!r} is no shape: write whole numbers, as in {name}:1,3,224,224"
            ) from None
        _require_extents(name, shapes[name])
    return shapes


def resolve_shapes(
    declared: Mapping[str, Sequence[Extent] | None], fixed: Mapping[str, Sequence[int]]
) -> dict[str, tuple[int, ...]]:
    """Return the static shape of every input; equal names of dimensions get one number.

    ``declared`` has the dimensions of each input, None if the model does not say how many.
    ``fixed`` has the shapes that the user gives. An extent of 0 is kept unless the user gives
    another, although some exporters write it for unknown ones. Raise InputShapeError if an input is
    unknown, the number of dimensions differs, a given number contradicts the model or another one,
    or a dimension is still open; the message then says what to give.
    """
    for name, shape in fixed.items():
        if name in declared:
            _require_extents(name, shape)
    declared, numbers = bound_dimensions(declared, fixed)
    return {
        name: _static(name, extents, fixed.get(name), numbers) for name, extents in declared.items()
    }


def bound_dimensions(
    declared: Mapping[str, Sequence[Extent] | None], given: Mapping[str, Sequence[Given]]
) -> tuple[dict[str, list[Extent] | None], dict[str, Given]]:
    """Return the dimensions as the model means them, and what is given for each named one.

    Parameters are those of :func:`resolve_shapes`; what is given may be ranges. Raise
    InputShapeError if an input is unknown, the number of dimensions differs, or what is given
    contradicts the model or itself.
    """
    meant = {
        name: None if extents is None else list(map(_as_meant, extents))
        for name, extents in declared.items()
    }
    symbols: dict[str, tuple[Given, str]] = {}
    for name, shape in given.items():
        if name not in meant:
            names = ", ".join(meant) or "none"
            raise InputShapeError(f"there is no input {name!r} to give a shape; there are: {names}")
        extents = meant[name]
        if extents is None:
            continue
        if len(shape) != len(extents):
            raise InputShapeError(
                f"input {name!r} has {len(extents)} dimensions ({_text(extents)}), "
                f"not {len(shape)} ({_text(shape)})"
            )
        for axis, (extent, number) in enumerate(zip(extents, shape, strict=True)):
            if isinstance(extent, int) and extent > 0 and extent != number:
                raise InputShapeError(
                    f"dimension {axis} of input {name!r} is {extent} in the model, not {number}"
                )
            if isinstance(extent, str):
                before, where = symbols.setdefault(extent, (number, name))
                if before != number:
                    raise InputShapeError(
                        f"the dimension {extent!r} is {before} by the shape of {where!r} and "
                        f"{number} by that of {name!r}: give one number"
                    )
    return meant, {symbol: number for symbol, (number, _) in symbols.items()}


def assumed_batch(
    declared: Mapping[str, Sequence[Extent] | None], fixed: Mapping[str, Sequence[int]]
) -> dict[str, tuple[int, ...]]:
    """Return shapes for a batch of one, where nothing but the batch is open; else nothing.

    Parameters are those of :func:`resolve_shapes`.
    """
    if None in declared.values() or not declared.keys() >= fixed.keys():
        return {}
    known: dict[str, list[Extent]] = {}
    for name, extents in declared.items():
        known[name] = list(map(_as_meant, fixed.get(name, extents or ())))
    given = {
        symbol
        for name, shape in fixed.items()
        for symbol, _ in zip(declared.get(name) or (), shape, strict=False)
    }
    open_inputs = {
        name: extents
        for name, extents in known.items()
        if not all(isinstance(extent, int) for extent in extents)
    }
    firsts = {extents[0] for extents in open_inputs.values() if _begins_with_batch(extents)}
    for extents in open_inputs.values():
        is_batch = extents[0] in firsts and extents[0] not in given
        if not is_batch or not all(isinstance(extent, int) for extent in extents[1:]):
            return {}
    return {
        name: (1, *(extent for extent in extents[1:] if isinstance(extent, int)))
        for name, extents in open_inputs.items()
    }


def _begins_with_batch(extents: Sequence[Extent]) -> bool:
    """Return whether the first dimension is open and may be a batch."""
    first = extents[0]
    if isinstance(first, int):
        return False
    if first is not None and "batch" in first.lower():
        return True
    return len(extents) > 1 and (first is None or not _NO_BATCH.search(first))


def _as_meant(extent: Extent) -> Extent:
    """Return the extent, or None if it only says that it is unknown."""
    if isinstance(extent, str):
        return None if _UNKNOWN.fullmatch(extent) else extent
    return None if extent is None or extent < 0 else extent


def _static(
    name: str,
    extents: Sequence[Extent] | None,
    shape: Sequence[int] | None,
    numbers: Mapping[str, int],
) -> tuple[int, ...]:
    if shape is not None:
        return tuple(shape)
    if extents is None:
        raise InputShapeError(
            f"input {name!r} has no shape: give --shape {name}: with its numbers, "
            f"as in {name}:1,3,224,224"
        )
    resolved = [numbers.get(e, e) if isinstance(e, str) else e for e in extents]
    for axis, extent in enumerate(resolved):
        if not isinstance(extent, int):
            label = f" ({extent!r})" if isinstance(extent, str) else ""
            raise InputShapeError(
                f"input {name!r} has the dynamic dimension {axis}{label}: {_advice(name, resolved)}"
            )
    return tuple(extent for extent in resolved if isinstance(extent, int))


def _advice(name: str, extents: Sequence[Extent]) -> str:
    """Return what to give for an input. An open first dimension is nearly always the batch."""
    words = [
        str(extent)
        if isinstance(extent, int)
        else "1"
        if axis == 0 and _begins_with_batch(extents)
        else extent
        if isinstance(extent, str) and extent.isidentifier()
        else f"N{axis}"
        for axis, extent in enumerate(extents)
    ]
    open_extents = [word for word in words if not word.isdigit()]
    numbers = (
        f" with a number for {' and '.join(dict.fromkeys(open_extents))}" if open_extents else ""
    )
    return f"give --shape {name}:{','.join(words)}{numbers}"


def _require_extents(name: str, shape: Sequence[int]) -> None:
    if any(extent < 0 for extent in shape):
        raise InputShapeError(f"the shape {_text(shape)} of input {name!r} holds a negative number")


def _text(extents: Sequence[object]) -> str:
    return ",".join("?" if extent is None else str(extent) for extent in extents)
