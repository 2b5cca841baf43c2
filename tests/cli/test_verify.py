"""``--verify``: what programs are compared with, and where one reads of it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.cli.command_line import Outcome, tvm_ios, tvm_ios_briefly
from tests.onnx_sketch import save_small


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return save_small(tmp_path_factory.mktemp("model"))


def optimized(model: Path, out: Path, *options: object) -> Outcome:
    limits = ["--lanes", 1, "--policy", "sequential", "--fallback", "none", "-o", out]
    return tvm_ios_briefly("optimize", model, *limits, *options)


def noted(out: Path) -> str | None:
    return json.loads((out / "meta.json").read_text())["notes"]["reference"]


def test_the_reference_is_told_and_kept(model: Path, tmp_path: Path) -> None:
    pytest.importorskip("onnxruntime")
    done = optimized(model, tmp_path / "out", "--json").json
    assert done["reference"].startswith("ONNX Runtime 1")
    assert noted(tmp_path / "out") == done["reference"]


@pytest.mark.slow
def test_one_may_choose_tvm_or_nothing(model: Path, tmp_path: Path) -> None:
    by_tvm = optimized(model, tmp_path / "tvm", "--verify", "tvm")
    assert "errors: to the outputs of TVM's own build" in " ".join(by_tvm.stdout.split())
    unverified = optimized(model, tmp_path / "off", "--verify", "off", "--json").json
    assert unverified["search"]["reference"] is None
    assert {row["max_rel_error"] for row in unverified["policies"]} == {None}
    assert noted(tmp_path / "off") is None


def test_nothing_is_computed_by_torch_where_nothing_is_compared(model: Path) -> None:
    outcome = tvm_ios("bundle", model, "--verify", "off", "--reference", "torch")
    assert outcome.code == 2
    assert "--reference" in outcome.stderr
