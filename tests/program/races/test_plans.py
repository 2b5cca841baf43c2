"""Races in plans of anybody: random ones by brute force, and faulty documents."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from random import Random
from typing import Any

import pytest

from tests.fast_run import is_fast
from tests.program.races.random_plans import brute_force, mutated, random_document
from tests.refusals import refused
from tvm_ios.program.races.document import plan_from_json, read_plan
from tvm_ios.program.races.plan import PlanError, Race, find_races


def races_of(document: Mapping[str, Any]) -> tuple[Race, ...]:
    return find_races(plan_from_json(document))


def test_verdicts_equal_brute_force_also_of_mutated_plans() -> None:
    """Of 10,000 plans, most of them mutations of such as have no race, none is accepted falsely."""
    random = Random(0)
    plans = racing = 0
    while plans < (2_500 if is_fast() else 10_000):
        document = random_document(random)
        for _ in range(4):
            try:
                expected = brute_force(document)
            except KeyError:
                break  # an event that is not recorded any more
            found = {frozenset((r.first, r.second)) for r in races_of(document)}
            assert found == expected, document
            plans, racing = plans + 1, racing + bool(expected)
            document = mutated(document, random)
    assert plans / 4 < racing < plans * 3 / 4, "both verdicts are common"


DIAMOND: dict[str, Any] = {
    "format": "tvm-ios plan",
    "version": 1,
    "buffers": {"x": 64, "arena": 128, "a": {"within": "arena", "begin": 0, "bytes": 64}},
    "calls": [
        {"launch": "first", "stream": "s0", "reads": ["x"], "writes": ["a"]},
        {"record": "made", "stream": "s0"},
        {"wait": "made", "stream": "s1"},
        {"launch": "second", "stream": "s1", "reads": ["a"], "writes": ["x"]},
    ],
}


def changed(**fields: Any) -> dict[str, Any]:
    return {**DIAMOND, **fields}


def test_a_race_says_what_is_touched_and_how() -> None:
    assert races_of(DIAMOND) == ()
    first, _, _, second = DIAMOND["calls"]
    assert races_of(changed(calls=[first, second])) == (
        Race("first", "second", ("a", "a"), (True, False)),
    )
    early = [DIAMOND["calls"][n] for n in (1, 0, 2, 3)]
    assert len(races_of(changed(calls=early))) == 1, "recorded before the launch"


def test_an_event_stands_for_what_was_recorded_last() -> None:
    first, record, wait, second = DIAMOND["calls"]
    again = {"record": "made", "stream": "s2"}
    calls = [first, record, again, wait, second]
    assert len(races_of(changed(calls=calls))) == 1
    calls = [first, record, wait, again, second]
    assert races_of(changed(calls=calls)) == ()


@pytest.mark.parametrize(
    ("document", "names"),
    [
        ({}, ("tvm-ios plan",)),
        (changed(version=2), ("version 1",)),
        ({k: v for k, v in DIAMOND.items() if k != "calls"}, ("'calls'",)),
        (changed(calls={}), ("'calls'", "no list")),
        (changed(calls=[1]), ("call 0", "an object")),
        (changed(calls=[{"launch": "a", "wait": "e", "stream": "s"}]), ("call 0", "'launch'")),
        (changed(calls=[{"record": "e"}]), ("call 0", "no stream")),
        (changed(calls=[{"wait": "e", "stream": "s"}]), ("'e'", "not recorded")),
        (changed(calls=[{"launch": "a"}, {"launch": "a"}]), ("two launches", "'a'")),
        (changed(calls=[{"launch": "a", "after": ["b"]}]), ("'a'", "'b'")),
        (changed(calls=[{"launch": "a", "after": ["a"]}]), ("'a'", "wait for each other")),
        (
            changed(calls=[{"launch": "a", "after": ["b"]}, {"launch": "b", "after": ["a"]}]),
            ("'a'", "'b'", "wait for each other"),
        ),
        (changed(calls=[{"launch": "a", "reads": ["z"]}]), ("call 0", "'z'")),
        (changed(calls=[{"launch": "a", "reads": "x"}]), ("'reads'", "call 0")),
        (
            changed(calls=[{"launch": "a", "reads": [{"buffer": "x", "begin": 60, "bytes": 5}]}]),
            ("call 0", "'x'"),
        ),
        (
            changed(
                calls=[{"launch": "a", "reads": [{"buffer": "x", "bytes": 8, "count": 9}]}],
                buffers={"x": 7},
            ),
            ("call 0", "'x'"),
        ),
        (changed(calls=[{"launch": "a", "reads": [{"buffer": "x", "begin": -1}]}]), ("'begin'",)),
        (changed(buffers={"a": {"within": "b", "begin": 0, "bytes": 1}}), ("'a'", "'b'")),
        (
            changed(buffers={"b": 4, "a": {"within": "b", "begin": 4, "bytes": 1}}),
            ("'a'", "'b'"),
        ),
    ],
)
def test_what_is_no_plan_is_refused(document: Mapping[str, Any], names: tuple[str, ...]) -> None:
    with refused(PlanError, *names):
        races_of(document)


def test_files(tmp_path: Path) -> None:
    path = tmp_path / "plan.json"
    path.write_text(json.dumps(DIAMOND))
    assert read_plan(path) == plan_from_json(DIAMOND)
    path.write_text("{")
    with refused(PlanError, path):
        read_plan(path)
