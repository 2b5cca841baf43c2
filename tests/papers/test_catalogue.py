"""Every table and figure of the texts has rows, and every value of them has one."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from benchmarks.papers.catalogue import TEXTS, Item, UnknownItemError, all_items, items_named
from benchmarks.papers.registry import functions

ROOT = Path(__file__).parents[2]
#: The tables and figures of each text, numbered without a gap.
NUMBERS = {
    "ios-mlsys21": [
        *(f"figure-{n}" for n in range(1, 17)),
        *(f"table-{n}" for n in range(1, 4)),
    ],
    "ios-thesis": [
        *("figure-1.1", "figure-1.2"),
        *(f"figure-2.{n}" for n in range(1, 4)),
        *(f"figure-3.{n}" for n in range(1, 6)),
        *(f"figure-4.{n}" for n in range(1, 11)),
        *("table-3.1", "table-4.1", "table-4.2"),
    ],
    "rammer-osdi20": [*(f"figure-{n}" for n in range(1, 22)), "table-1"],
    "graphturbo-osdi23": [
        *(f"figure-{n}" for n in range(1, 19)),
        *(f"table-{n}" for n in range(1, 6)),
    ],
    "memory-aware-scheduling": [
        *(f"figure-{n}" for n in range(1, 10)),
        *(f"table-{n}" for n in range(1, 7)),
    ],
}


def test_all_tables_and_figures_are_there() -> None:
    names = {f"{text}/{number}" for text, numbers in NUMBERS.items() for number in numbers}
    assert {item.name for item in all_items()} == names
    assert set(NUMBERS) == set(TEXTS)


def test_each_has_rows_of_one_kind() -> None:
    made = {name: make for text in TEXTS for name, make in functions(text).items()}
    for item in all_items():
        kinds = (item.same_as, item.illustration, item.not_possible, made.get(item.name))
        assert sum(kind is not None for kind in kinds) == 1, item.name
    assert made.keys() <= {item.name for item in all_items()}


@pytest.mark.parametrize("item", all_items(), ids=lambda item: item.name)
def test_what_it_says_is_sound(item: Item) -> None:
    assert item.title
    assert item.place
    if item.same_as is not None:
        (other,) = items_named([item.same_as])
        assert other.same_as is None
        assert not item.values
    for named in re.findall(r"`((?:tvm_ios|tests|docs)/[^`]*)`", item.illustration or ""):
        path, _, test = named.partition("::")
        assert (ROOT / path).exists(), named
        assert not test or f"def {test}(" in (ROOT / path).read_text(), named


def test_names_of_texts_mean_all_of_them() -> None:
    assert items_named([]) == all_items()
    thesis = items_named(["ios-thesis"])
    assert len(thesis) == len(NUMBERS["ios-thesis"])
    assert items_named(["ios-thesis/table-3.1", "ios-thesis"])[0].name == "ios-thesis/table-3.1"
    with pytest.raises(UnknownItemError, match="rammer-osdi20/table-1"):
        items_named(["rammer-osdi2020/table-1"])
