"""The result of optimising a small model, for tests of what is printed."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from tvm_ios.api.outcomes import outcomes
from tvm_ios.api.result import Result, SearchSummary
from tvm_ios.contest.pairs import PairedRatio
from tvm_ios.contest.verdict import PolicyResult, Verdict


def small_result(**how: Any) -> Result:
    """Greedy, which is kept, beside one unit after another; with other fields if given."""
    rows = tuple(
        PolicyResult(policy, ratio * 1e-3, ratio, 1, 0.0, 0.0)
        for policy, ratio in (("sequential", 1.0), ("greedy", 0.907))
    )
    confirmed = {"sequential": PairedRatio(0.960, 0.95, 0.97, 40)}
    verdict = Verdict(rows, "greedy", confirmed, {}, "ONNX Runtime")
    memory: Any = SimpleNamespace(
        plan=SimpleNamespace(nbytes=0), unshared=0, bound=0, proven=True, ratio=1.0
    )
    left_out = ("an operator is written down",)
    fields: dict[str, Any] = dict(
        model="small",
        target="x86-64-v3",
        cost=None,
        timed_on="here",
        policies=rows,
        outcomes=outcomes(verdict, {}, {}, with_log=False),
        kept="greedy",
        reference=verdict.reference,
        confirmed=confirmed,
        memory=memory,
        executable=None,
        search=SearchSummary(1, 1, 1, 0, 0, 0, 0, 1, True, left_out, None),
        notes=(),
        seconds={"import": 0.6, "search": 0.1, "build": 0.1, "tvm": 0.0},
    )
    return Result(**fields | how)
