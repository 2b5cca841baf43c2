"""Reading parsed JSON as dataclasses."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import asdict, astuple, dataclass, replace
from pathlib import Path
from typing import Annotated, Any

import pytest

from tvm_ios.files.json_text import JsonError
from tvm_ios.files.plain_data import read_as


@dataclass(frozen=True, slots=True)
class Point:
    place: tuple[int, int]
    height: float = 1.5


@dataclass(frozen=True)
class Map:
    name: str
    points: tuple[Point, ...]
    folders: Mapping[str, Path]
    seed: Annotated[int, range(-1, 1 << 63)]
    scale: int | None
    closed: bool
    notes: Sequence[str] = ()


MAP = Map("m", (Point((1, 2)), Point((0, 0), 2.0)), {"a": Path("/a")}, -1, None, True, ("n",))


def test_what_was_written_is_read() -> None:
    data = json.loads(json.dumps(asdict(MAP), default=os.fspath))
    assert read_as(Map, data) == MAP
    assert read_as(Map, {**data, "unknown": 1}) == MAP
    assert read_as(Map, asdict(replace(MAP, folders={}))) == replace(MAP, folders={})
    assert read_as(tuple[Point, ...], [astuple(point) for point in MAP.points]) == MAP.points
    assert read_as(Point, [[1, 2]]) == Point((1, 2))
    assert read_as(Point, {"place": [1, 2], "height": 3}) == Point((1, 2), 3.0)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"name": 1}, "'name': '1' where a text should be"),
        ({"points": {}}, "'points': '{}' where a list should be"),
        ({"points": [1]}, "'points': '1' where an object should be"),
        ({"points": [{"height": 1.0}]}, "'points': 'place'"),
        ({"points": [{"place": [1]}]}, "'points': 'place': 1 values where 2 should be"),
        ({"points": [{"place": [1, -1]}]}, "'points': 'place': '-1' where a count should be"),
        ({"points": [[[1, 2], 1.0, 1.0]]}, "'points': 3 values where 2 should be"),
        ({"points": [[[1, 2], 10**400]]}, "'points': 'height': int too large"),
        ({"folders": {"a": None}}, "'folders': 'a': 'None' where a text should be"),
        ({"folders": []}, r"'folders': '\[\]' where an object should be"),
        ({"seed": -2}, r"'seed': -2 where one of range\(-1"),
        ({"seed": True}, "'seed': 'True' where an integer should be"),
        ({"scale": 1.0}, "'scale': '1.0' where a count should be"),
        ({"closed": 1}, "'closed': '1' where true or false should be"),
        ({"notes": "no"}, "'notes': 'no' where a list should be"),
    ],
)
def test_what_is_misstated_is_named(changes: dict[str, Any], message: str) -> None:
    data = json.loads(json.dumps(asdict(MAP), default=os.fspath))
    with pytest.raises(JsonError, match=f"^{message}"):
        read_as(Map, {**data, **changes})
    with pytest.raises(JsonError, match=r"^'name'$"):
        read_as(Map, {key: value for key, value in data.items() if key != "name"})
