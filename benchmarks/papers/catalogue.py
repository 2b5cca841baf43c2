"""The five texts, and every table and figure in them, as ``texts/*.toml`` have them."""

from __future__ import annotations

import tomllib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any, cast

from benchmarks.papers.row import Value
from tvm_ios.errors import UserError, nearest

#: The order in which they are shown.
TEXTS = (
    "ios-mlsys21",
    "ios-thesis",
    "rammer-osdi20",
    "graphturbo-osdi23",
    "memory-aware-scheduling",
)


@dataclass(frozen=True, slots=True)
class Item:
    """A table or a figure."""

    #: ``TEXT/table-3.1`` or ``TEXT/figure-7``.
    name: str
    #: What it shows, in half a sentence.
    title: str
    #: Its section, or page.
    place: str
    #: What it states: numbers and words, in tables of any depth by name.
    values: Mapping[str, Any] = field(default_factory=dict[str, Any], hash=False)
    #: Of all values, where they have one in common.
    unit: str = ""
    #: The name of the table or figure of another text that shows the same.
    same_as: str | None = None
    #: What in this project shows or tests the same, if it is an illustration.
    illustration: str | None = None
    #: Why nothing can be set beside its values here, if that is so.
    not_possible: str | None = None

    @property
    def text(self) -> str:
        """The text that it is in."""
        return self.name.partition("/")[0]

    def flat_values(self) -> Mapping[str, Value]:
        """Each value by the names that lead to it, between commas."""
        return dict(flat(self.values))


@dataclass(frozen=True, slots=True)
class Text:
    """A publication."""

    #: As in :data:`TEXTS`.
    name: str
    #: Of the publication.
    title: str
    source: str
    #: Its tables and figures, in the order of their numbers.
    items: tuple[Item, ...]


class UnknownItemError(UserError):
    """A name of no text, table or figure."""


@cache
def read_text(name: str) -> Text:
    """A text of :data:`TEXTS`."""
    content = (Path(__file__).parent / "texts" / f"{name}.toml").read_text()
    data = tomllib.loads(content)
    items = (Item(f"{name}/{short}", **item) for short, item in data["items"].items())
    return Text(name, data["title"], data["source"], tuple(items))


def all_items() -> tuple[Item, ...]:
    """Every table and figure."""
    return tuple(item for name in TEXTS for item in read_text(name).items)


def item_named(name: str) -> Item:
    """A table or figure; raises :class:`UnknownItemError`."""
    (item,) = items_named([name])
    return item


def items_named(names: Sequence[str]) -> tuple[Item, ...]:
    """The tables and figures of some names; without names all of them.

    Parameters
    ----------
    names
        Of texts, or of single tables and figures.

    Raises
    ------
    UnknownItemError
        If a name is neither.
    """
    if not names:
        return all_items()
    known = {item.name: (item,) for item in all_items()}
    known |= {name: read_text(name).items for name in TEXTS}
    for name in names:
        if name not in known:
            raise UnknownItemError(
                f"there is no text, table or figure {name!r}"
                + (nearest(name, known) or "; `python -m benchmarks.papers --list` lists them")
            )
    return tuple(dict.fromkeys(item for name in names for item in known[name]))


def flat(values: Mapping[str, Any], *path: str) -> Iterator[tuple[str, Value]]:
    """Each value of a table by the names that lead to it, between commas."""
    for name, value in values.items():
        if isinstance(value, Mapping):
            yield from flat(cast("Mapping[str, Any]", value), *path, name)
        else:
            yield ", ".join((*path, name)), value
