"""Every case of ONNX's own suite comes through Relay to what is expected of it."""

from __future__ import annotations

import pytest

from tests.onnx_suite.cases import FORMS, all_cases
from tests.onnx_suite.expectations import computed, expectations, require_expected

WAY = "tvm-ios-relay"

#: The fast tests run one case of so many, of those that are not refused.
_EVERY = 60


@pytest.mark.parametrize("form", FORMS)
def test_a_spread_of_cases(form: str) -> None:
    require_expected(WAY, form, computed(WAY, form)[::_EVERY])


@pytest.mark.slow
@pytest.mark.parametrize("form", FORMS)
def test_all_cases(form: str) -> None:
    require_expected(WAY, form, [*all_cases(form)])


@pytest.mark.parametrize("form", FORMS)
def test_expectations_are_of_cases(form: str) -> None:
    expected = expectations(WAY, form)
    assert expected.keys() <= all_cases(form).keys()
    # Nothing is wrong, and nothing ends in a traceback.
    assert {*expected.values()} <= {"refused", "outside"}
