"""Every case of ONNX's own suite comes through Relay to what is expected of it."""

from __future__ import annotations

import pytest

from tests.onnx_suite.cases import all_cases
from tests.onnx_suite.expectations import computed, expectations, require_expected
from tests.onnx_suite.verdict import examiner

WAY, FORM = "tvm-ios-relay", "inputs"

KNOWN = ("tail", "refused", "outside")

#: The fast tests run one case of so many, of those that are not refused, in this process.
_EVERY = 150


def _small(names: list[str]) -> list[str]:
    """``relay.build`` of a whole network can take longer than a case may."""
    return [name for name in names if not name.startswith("real/")]


def test_a_spread_of_cases() -> None:
    verdict = examiner(WAY, FORM)
    verdicts = {name: verdict(name) for name in _small(computed(WAY, FORM))[::_EVERY]}
    assert {name: v for name, v in verdicts.items() if v.verdict != "pass"} == {}


@pytest.mark.slow
def test_all_cases() -> None:
    require_expected(WAY, FORM, _small([*all_cases(FORM)]))


#: What onnx 1.18 expects of these wraps around, where the operator saturates (as 1.23 has it).
_WRAPPED = {
    f"node/test_qlinearmatmul_{rank}D_int8_{dtype}"
    for rank in (2, 3)
    for dtype in ("float16", "float32")
}


def test_expectations_are_of_cases() -> None:
    expected = expectations(WAY, FORM)
    assert expected.keys() <= all_cases(FORM).keys()
    others = {name for name, verdict in expected.items() if verdict not in KNOWN}
    # Nothing else is wrong, and nothing ends in a traceback.
    assert others == _WRAPPED
