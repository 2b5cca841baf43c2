"""Active warps are the sum of what is resident, and no more than fit."""

from __future__ import annotations

from pathlib import Path
from typing import Any, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runtime_ext.bundle.contents import read_bundle
from runtime_ext.bundle.warps import KernelSpan, active_warps, kernel_spans, profile_warps, trace_of
from tests.refusals import refused
from tvm_ios.errors import UserError

MOST = 64
moments = st.integers(0, 1000)
spans = st.lists(
    st.builds(
        lambda begin, length, warps: KernelSpan(begin, begin + length, warps),
        moments,
        st.integers(1, 300),
        st.floats(0.01, 64),
    ),
    min_size=1,
    max_size=12,
)


@given(spans)
def test_the_timeline_is_what_every_moment_says(kernels: list[KernelSpan]) -> None:
    warps = active_warps(kernels, MOST, points=37)
    begin, end = min(k.begin for k in kernels), max(k.end for k in kernels)
    # Spans begin and end with whole seconds here.
    at = [[k for k in kernels if k.begin <= t < k.end] for t in range(int(begin), int(end))]
    sums = [min(MOST, sum(k.warps for k in inside)) for inside in at]
    assert warps.seconds == end - begin
    assert warps.mean == pytest.approx(sum(sums) / len(sums))
    assert warps.busy == pytest.approx(sum(map(bool, at)) / len(at))
    assert warps.side_by_side == pytest.approx(sum(len(k) > 1 for k in at) / len(at))
    assert sum(warps.timeline) / 37 == pytest.approx(warps.mean, abs=1e-3)
    assert max(warps.timeline) <= MOST + 1e-3


def event(begin: float, length: float, warps: float, percent: int) -> dict[str, Any]:
    about = {"warps per SM": warps, "est. achieved occupancy %": percent, "stream": 7}
    return {"ph": "X", "cat": "kernel", "ts": begin, "dur": length, "args": about}


def test_kernels_of_a_trace() -> None:
    other = {"ph": "X", "cat": "gpu_memcpy", "ts": 3.0, "dur": 5.0, "args": {}}
    few = event(10.0, 4.0, 0.25, 0)
    many = event(12.0, 6.0, 120.0, 50)
    first, second = kernel_spans({"traceEvents": [other, few, many]}, MOST)
    assert first == KernelSpan(pytest.approx(10e-6), pytest.approx(14e-6), 0.25)
    assert second.warps == pytest.approx(32, rel=0.02)
    warps = active_warps([first, second], MOST)
    assert warps.busy == pytest.approx(1)
    assert warps.side_by_side == pytest.approx(2 / 8)
    with refused(UserError, "'warps per SM'"):
        kernel_spans({"traceEvents": [{**few, "args": {"est. achieved occupancy %": 1}}]}, MOST)


def test_where_there_are_no_kernels_that_is_said() -> None:
    torch: Any = pytest.importorskip("torch", reason="needs torch: pip install .[torch]")
    if torch.cuda.is_available():
        pytest.skip("this machine has a GPU")
    with refused(UserError, "kernels"):
        kernel_spans(trace_of(lambda: torch.ones(3) + 1), MOST)


def test_a_trace_is_of_the_second_run() -> None:
    torch: Any = pytest.importorskip("torch", reason="needs torch: pip install .[torch]")
    runs: list[str] = []

    def run() -> None:
        runs.append(f"run {len(runs)}")
        with torch.profiler.record_function(runs[-1]):
            torch.ones(3).add(1)

    names = {event.get("name") for event in trace_of(run)["traceEvents"]}
    assert len(runs) == 2
    assert names.intersection(runs) == {"run 1"}


def test_a_cpu_has_no_warps(folder: Path) -> None:
    bundle = read_bundle(folder)
    with refused(UserError, "CPU"):
        profile_warps(bundle, cast("Any", None), cast("Any", None), {}, lambda *_: None)
