"""Which function makes the rows of a table or figure."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from importlib import import_module
from types import MappingProxyType
from typing import Any

from benchmarks.papers.catalogue import Item
from benchmarks.papers.row import How, Row
from benchmarks.papers.steps import Steps

#: Makes rows of the published values (:attr:`benchmarks.papers.catalogue.Item.values`).
MakeRows = Callable[[Mapping[str, Any], Steps], Iterable[Row]]

#: The folder of the functions for each text; its ``rows.py`` has them by name in ``ROWS``.
_SYSTEMS: Mapping[str, str] = MappingProxyType(
    {
        "ios-mlsys21": "ios",
        "ios-thesis": "ios",
        "rammer-osdi20": "rammer",
        "graphturbo-osdi23": "graphturbo",
        "memory-aware-scheduling": "memory",
    }
)


def functions(text: str) -> Mapping[str, MakeRows]:
    """The function of each table and figure of a text's system that needs one, by name."""
    return import_module(f"benchmarks.papers.{_SYSTEMS[text]}.rows").ROWS


def rows_of(item: Item, steps: Steps) -> list[Row]:
    """The rows of a table or figure that is not the same as another one.

    Raises
    ------
    LookupError
        If nothing says what its rows are.
    """
    if item.illustration is not None:
        return [Row(item.title, None, None, "", How.ILLUSTRATION, note=item.illustration)]
    if item.not_possible is not None:
        values = item.flat_values() or {item.title: None}
        return [
            Row(label, value, None, item.unit, How.NOT_POSSIBLE, note=item.not_possible)
            for label, value in values.items()
        ]
    return list(functions(item.text)[item.name](item.values, steps))
