"""Random networks of many operators compute what ONNX Runtime does, through Relay, too."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.fast_run import is_fast
from tests.fuzz.runner import run_cases


def check_networks(count: int, first: int, folder: Path) -> None:
    pytest.importorskip("onnxruntime")
    report = run_cases([("network", first + i) for i in range(count)], folder)
    assert not report.failures, "\n".join(report.failures)
    assert report.counts["network", "success"] > count // 2


def test_random_networks(tmp_path: Path) -> None:
    check_networks(1 if is_fast() else 6, 0, tmp_path)


@pytest.mark.slow
def test_many_random_networks(tmp_path: Path) -> None:
    check_networks(100, 2_000_000, tmp_path)
