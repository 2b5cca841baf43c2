"""What each case is expected to come to."""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import cache
from pathlib import Path

from tests.onnx_suite.cases import FORMS
from tests.onnx_suite.results import Results

_PATH = Path(__file__).with_name("expectations.json")
#: The way whose verdicts are expected of every way of tvm-ios on Relax.
_WAY = "tvm-ios"


@cache
def expectations(form: str) -> Mapping[str, str]:
    """The expected verdicts other than ``pass``, by the names of cases."""
    by_verdict = json.loads(_PATH.read_text())[form]
    return {name: verdict for verdict, names in by_verdict.items() for name in names}


def write_expectations(results: Results) -> None:
    """Make what the cases came to what is expected of them."""
    expected: dict[str, dict[str, list[str]]] = {}
    for form in FORMS:
        for name, row in results.of(_WAY, form).items():
            if row.verdict != "pass":
                expected.setdefault(form, {}).setdefault(row.verdict, []).append(name)
    _PATH.write_text(json.dumps(expected, indent=1) + "\n")
