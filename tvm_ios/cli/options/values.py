"""Parse names, numbers and sizes of options; what is malformed is a wrong use of the command."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

import typer

from tvm_ios.errors import nearest
from tvm_ios.files.byte_sizes import ByteSizeError, parse_bytes


def wrong_use(option: str, sentence: object) -> typer.BadParameter:
    """Return the error of an option that is used wrongly, to be raised."""
    return typer.BadParameter(str(sentence), param_hint=f"'{option}'")


def refuse(sentence: str, options: Mapping[str, object]) -> None:
    """Raise a wrong use of the first of these options whose value is true (was given)."""
    for option in (option for option, given in options.items() if given):
        raise wrong_use(option, sentence)


def names_in(text: str) -> list[str]:
    """Split text into names at commas, each once."""
    return list(dict.fromkeys(name.strip() for name in text.split(",") if name.strip()))


def require_known(names: Sequence[str], allowed: Collection[str], option: str) -> None:
    """Raise a wrong use if a name is not among those that the option allows."""
    for name in (name for name in names if name not in allowed):
        raise wrong_use(option, f"{name!r} is none of {', '.join(allowed)}{nearest(name, allowed)}")


def numbers_in(text: str | None, option: str) -> list[int]:
    """Split text into whole numbers from one on at commas, each once."""
    try:
        numbers = [int(word) for word in names_in(text or "")]
    except ValueError:
        numbers = [0]
    if text is not None and (not numbers or min(numbers) < 1):
        raise wrong_use(
            option, f"{text!r} is no whole number from 1 on, nor several between commas"
        )
    return numbers


def bytes_of(text: str | None, option: str) -> int | None:
    """Parse the size in bytes that an option gives; None without it."""
    try:
        return None if text is None else parse_bytes(text)
    except ByteSizeError as error:
        raise wrong_use(option, error) from error
