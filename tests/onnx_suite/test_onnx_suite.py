"""Every case of ONNX's own suite comes to what is expected of it."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.onnx_suite.cases import FORMS, all_cases
from tests.onnx_suite.expectations import computed, expectations, require_expected, tailed
from tests.onnx_suite.verdict import difference, examine, examiner
from tests.onnx_suite.ways import Computed

WAY = "tvm-ios"
KNOWN = ("tail", "refused", "outside")

#: The fast tests run one case of so many, of those that are not refused, in this process.
_SPREAD = {"inputs": 160, "constants": 240}


@pytest.mark.parametrize("form", FORMS)
def test_a_spread_of_cases(form: str) -> None:
    verdict, expected = examiner(WAY, form), expectations(WAY, form)
    names = [*computed(WAY, form)[:: _SPREAD[form]], *tailed(WAY, form)[:: _SPREAD[form]]]
    verdicts = {name: verdict(name) for name in names}
    others = {n: v for n, v in verdicts.items() if v.verdict != expected.get(n, "pass")}
    assert not others


@pytest.mark.parametrize("form", FORMS)
def test_a_spread_of_cases_with_open_dimensions(form: str) -> None:
    verdict = examiner("tvm-ios-open", form)
    verdicts = {name: verdict(name) for name in computed(WAY, form)[7 :: _SPREAD[form]]}
    # What has no program for a range is refused by name; nothing is wrong.
    assert {v.verdict for v in verdicts.values()} == {"pass", "refused"}


@pytest.mark.slow
@pytest.mark.parametrize("form", FORMS)
def test_all_cases_with_open_dimensions(form: str) -> None:
    verdict = examiner("tvm-ios-open", form)
    others = {
        name: found
        for name in computed(WAY, form)
        if (found := verdict(name)).verdict not in ("pass", "refused")
    }
    assert not others


@pytest.mark.slow
@pytest.mark.parametrize("form", FORMS)
def test_all_cases(form: str) -> None:
    require_expected(WAY, form, [*all_cases(form)])


@pytest.mark.slow
@pytest.mark.parametrize("form", FORMS)
def test_all_cases_with_tiles_on_two_lanes(form: str) -> None:
    require_expected("tvm-ios-lanes", form, computed(WAY, form))


def test_expectations_are_of_cases() -> None:
    for form in FORMS:
        expected = expectations(WAY, form)
        assert expected.keys() <= all_cases(form).keys()
        others = {name for name, verdict in expected.items() if verdict not in KNOWN}
        # Nothing else is wrong, and nothing ends in a traceback.
        assert not others


def test_wrong_outputs_are_seen() -> None:
    case = all_cases("inputs")["node/test_add"]

    def wrong(model: Any, path: Any, feeds: Any) -> Computed:
        return Computed([feeds["x"] - feeds["y"]])

    def tailed(model: Any, path: Any, feeds: Any) -> Computed:
        return Computed([feeds["x"] + feeds["y"]], "the end runs elsewhere")

    assert examine(case, wrong, refuses=True).verdict == "wrong"
    assert examine(case, lambda *_: Computed([]), refuses=True).verdict == "wrong"
    assert examine(case, tailed, refuses=True).verdict == "tail"
    assert examine(case, lambda *_: 1 / 0, refuses=True).verdict == "error"
    one = np.ones(2, np.float32)
    assert difference(one, one, 0.0, 0.0) is None
    assert difference(one, one.astype(np.float64), 0.0, 0.0)
    assert difference(one, one[:1], 0.0, 0.0)
    assert difference(one, one * np.nan, 0.0, 0.0)
