"""What ``optimize`` prints reads well for one thing and for none, and has one number for a gain."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from tvm_ios.api.outcomes import outcomes
from tvm_ios.cli.frame.output import left_out_text
from tvm_ios.cli.tables.optimized import print_optimized
from tvm_ios.contest.pairs import PairedRatio
from tvm_ios.contest.verdict import PolicyResult, Verdict


def result(policy: str, ratio: float) -> PolicyResult:
    return PolicyResult(policy, ratio * 1e-3, ratio, 1, 0.0, 0.0)


def printed(capsys: pytest.CaptureFixture[str], **how: Any) -> str:
    rows = (result("sequential", 1.0), result("greedy", 0.907))
    confirmed = {"sequential": PairedRatio(0.960, 0.95, 0.97, 40)}
    verdict = Verdict(rows, "greedy", confirmed, {}, "ONNX Runtime")
    memory = SimpleNamespace(
        plan=SimpleNamespace(nbytes=0), unshared=0, bound=0, proven=True, ratio=1.0
    )
    done = SimpleNamespace(
        model="small",
        policies=rows,
        outcomes=outcomes(verdict, {}, {}, with_log=False),
        kept="greedy",
        faster=None,
        reference=verdict.reference,
        confirmed=confirmed,
        memory=memory,
        executable="out",
        **{"operators": 1, "units": 1, "blocks": 1, "blocks_searched": 0, "candidates": 0},
        stages_measured=1,
        complete=True,
        left_out=("an operator is written down",),
        notes=(),
        tuned=None,
        seconds={"import": 0.6, "search": 0.1, "build": 0.1, "tvm": 0.0},
    )
    vars(done).update(how)
    print_optimized(done, False, {})  # pyright: ignore[reportArgumentType]
    return capsys.readouterr().out


def test_one_thing_and_nothing_are_told_as_such(capsys: pytest.CaptureFixture[str]) -> None:
    text = printed(capsys)
    for words in ("1 operator in 1 unit, 1 block\n", "1 stage measured now;", "1 program left out"):
        assert words in text
    assert "0 different" not in text
    assert "0.00" not in text
    assert left_out_text(["a", "b"]).startswith("2 programs left out")


def test_what_is_kept_has_the_ratio_that_decided(capsys: pytest.CaptureFixture[str]) -> None:
    text = printed(capsys)
    assert "gained 4.0 %" in text
    assert text.count("0.960") == 2
    assert "0.907" not in text.replace("0.907 ms", "")
