"""Cases drawn by the kinds of faults that users report are right, or refused in a sentence."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

from tests.fast_run import is_fast
from tests.onnx_suite.verdict import Verdict
from tests.outside.case import KINDS, Case, floats, node, onnx_model
from tests.outside.examined import FAULTS, examine, examine_all, names


def _faults(cases: Sequence[tuple[str, int]]) -> dict[str, Verdict]:
    rows = examine_all(cases, seed=0)
    return {f"{kind}:{number}": row for kind, number, row in rows if row.verdict in FAULTS}


def test_a_case_of_each_kind() -> None:
    kinds = [kind for kind in KINDS if "torch" not in kind]
    assert not _faults([(kind, 0) for kind in (kinds[::2] if is_fast() else kinds)])


@pytest.mark.slow
def test_many_cases() -> None:
    assert not _faults(names(240))


def test_wrong_outputs_and_inner_errors_are_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    feeds = {"x": floats(np.random.default_rng(0), 2, 2)}
    model = onnx_model([node("Neg", ["x"], ["y"])], feeds, ["y"])

    def verdict(case: Any) -> str:
        monkeypatch.setitem(KINDS, "given", lambda rng: case)
        return examine(0, "given", 0).verdict

    assert verdict(Case(model, feeds)) == "pass"
    assert verdict(Case(model, feeds, [feeds["x"]])) == "wrong"
    assert verdict(Case(model, {})) == "error"
