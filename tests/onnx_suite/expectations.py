"""What each case is expected to come to."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path

from tests.onnx_suite.cases import FORMS, all_cases
from tests.onnx_suite.results import Results, run_cases

#: What is expected of a way is expected of ``tvm-ios-lanes`` as of ``tvm-ios``.
_FILES = {"tvm-ios": "expectations.json", "tvm-ios-relay": "expectations_relay.json"}


@cache
def expectations(way: str, form: str) -> Mapping[str, str]:
    """The expected verdicts other than ``pass``, by the names of cases."""
    path = _path("tvm-ios" if way == "tvm-ios-lanes" else way)
    by_verdict = json.loads(path.read_text())[form]
    return {name: verdict for verdict, names in by_verdict.items() for name in names}


def computed(way: str, form: str) -> list[str]:
    """The cases that are expected to pass."""
    return [name for name in all_cases(form) if name not in expectations(way, form)]


def tailed(way: str, form: str) -> list[str]:
    """The cases that are expected to pass with their end on another runtime."""
    return [name for name, verdict in expectations(way, form).items() if verdict == "tail"]


def require_expected(way: str, form: str, names: Sequence[str]) -> None:
    """Run cases, and fail if one comes to something else than is expected of it."""
    expected = expectations(way, form)
    others = [
        f"{name}: {verdict.verdict}, not {expected.get(name, 'pass')}: {verdict.detail}"
        for name, verdict in run_cases(way, form, names)
        if verdict.verdict != expected.get(name, "pass")
    ]
    assert not others, "\n".join(others)


def write_expectations(results: Results) -> None:
    """Make what the cases came to what is expected of them, for the ways that were run."""
    for way in _FILES:
        expected: dict[str, dict[str, list[str]]] = {}
        for form in FORMS:
            for name, row in results.of(way, form).items():
                if row.verdict != "pass":
                    expected.setdefault(form, {}).setdefault(row.verdict, []).append(name)
        if expected:
            _path(way).write_text(json.dumps(expected, indent=1) + "\n")


def _path(way: str) -> Path:
    return Path(__file__).with_name(_FILES[way])
