"""Modules of PyTorch that are drawn are right, or refused in a sentence."""

from __future__ import annotations

import pytest

pytest.importorskip("torch")

from tests.fast_run import one_in
from tests.outside.case import KINDS
from tests.outside.examined import FAULTS, examine

KINDS_OF_TORCH = [kind for kind in KINDS if "torch" in kind]
CASES = [(kind, number) for kind in KINDS_OF_TORCH for number in range(40)]


@pytest.mark.parametrize(("kind", "number"), one_in(10, CASES, several=True))
def test_drawn_modules(kind: str, number: int) -> None:
    verdict = examine(0, kind, number)
    assert verdict.verdict not in FAULTS, verdict.detail
