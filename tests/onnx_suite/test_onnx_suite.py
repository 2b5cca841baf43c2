"""Every case of ONNX's own suite comes to what is expected of it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

from tests.onnx_suite.cases import FORMS, all_cases
from tests.onnx_suite.expectations import expectations
from tests.onnx_suite.results import run_cases
from tests.onnx_suite.verdict import difference, examine

KNOWN = ("refused", "outside")

#: The fast tests run one case of so many, of those that are not refused.
_SPREAD = {"inputs": 15, "constants": 8}


def require_expected(way: str, form: str, names: Sequence[str]) -> None:
    expected = expectations(form)
    others = [
        f"{name}: {verdict.verdict}, not {expected.get(name, 'pass')}: {verdict.detail}"
        for name, verdict in run_cases(way, form, names)
        if verdict.verdict != expected.get(name, "pass")
    ]
    assert not others, "\n".join(others)


def computed(form: str) -> list[str]:
    return [name for name in all_cases(form) if name not in expectations(form)]


@pytest.mark.parametrize("form", FORMS)
def test_a_spread_of_cases(form: str) -> None:
    require_expected("tvm-ios", form, computed(form)[:: _SPREAD[form]])


@pytest.mark.slow
@pytest.mark.parametrize("form", FORMS)
def test_all_cases(form: str) -> None:
    require_expected("tvm-ios", form, [*all_cases(form)])


@pytest.mark.slow
@pytest.mark.parametrize("form", FORMS)
def test_all_cases_with_tiles_on_two_lanes(form: str) -> None:
    require_expected("tvm-ios-lanes", form, computed(form))


#: TVM adds up in float16 what ONNX's reference does: three units in the last place.
_ROUNDED = "node/test_attention_4d_gqa_with_past_and_present_fp16"


def test_expectations_are_of_cases() -> None:
    for form in FORMS:
        expected = expectations(form)
        assert expected.keys() <= all_cases(form).keys()
        others = {name for name, verdict in expected.items() if verdict not in KNOWN}
        # Nothing else is wrong, and nothing ends in a traceback.
        assert others == ({_ROUNDED, f"{_ROUNDED}_expanded"} if form == "inputs" else set())


def test_wrong_outputs_are_seen() -> None:
    case = all_cases("inputs")["node/test_add"]

    def wrong(model: Any, path: Any, feeds: Any) -> list[Any]:
        return [feeds["x"] - feeds["y"]]

    assert examine(case, wrong, refuses=True).verdict == "wrong"
    assert examine(case, lambda *_: [], refuses=True).verdict == "wrong"
    assert examine(case, lambda *_: 1 / 0, refuses=True).verdict == "error"
    one = np.ones(2, np.float32)
    assert difference(one, one, 0.0, 0.0) is None
    assert difference(one, one.astype(np.float64), 0.0, 0.0)
    assert difference(one, one[:1], 0.0, 0.0)
    assert difference(one, one * np.nan, 0.0, 0.0)
