"""Whose outputs a bundle holds, and what its run compares."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest

from relay_passes.search_options import SearchOptions
from runtime_ext.bundle.compare import reference_of
from runtime_ext.bundle.contents import read_bundle
from runtime_ext.bundle.network import BundledNetwork
from runtime_ext.bundle.runner import main
from runtime_ext.peers.registry import peer_named
from tests.brief import shorten
from tests.onnx_sketch import Sketch, relative_error, run_on, save_small
from tests.quantised_models import SHAPES, rounded_convolution
from tvm_ios.api.bundle import bundle_model
from tvm_ios.contest.outputs import Verify
from tvm_ios.onnx.as_written import with_static_inputs

pytest.importorskip("onnxruntime")


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return save_small(tmp_path_factory.mktemp("model"))


def bundled(model: Path, folder: Path, cache: Path, **options: Any) -> str | None:
    summary = bundle_model(
        model,
        folder,
        options=SearchOptions(lanes=1, cache=cache),
        policies=("sequential",),
        max_merges=0,
        **options,
    )
    return summary.reference


def test_it_holds_what_the_model_is_by_onnx(model: Path, tmp_path: Path, cache: Path) -> None:
    source = bundled(model, tmp_path / "bundle", cache)
    assert str(source).startswith("ONNX Runtime 1")
    bundle = read_bundle(tmp_path / "bundle")
    assert bundle.about["reference"] == source
    (expected,) = run_on(onnx.load(model), bundle.reference_inputs)
    assert bundle.reference_outputs[0].tolist() == expected.tolist()
    network = BundledNetwork(bundle, 1)
    assert onnx.load(network.onnx_file(tmp_path)).graph.node == onnx.load(model).graph.node
    peer = peer_named("onnxruntime").start(network)
    assert relative_error(peer.outputs(peer.run()), [expected]) <= 1e-5


def test_it_holds_inputs_at_edges(
    tmp_path: Path, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shorten(monkeypatch.setattr)
    sketch = Sketch(8, 5)
    onnx.save(sketch.model(sketch.op("Relu", "x")), tmp_path / "relu.onnx")
    bundled(tmp_path / "relu.onnx", tmp_path / "bundle", cache)
    (edge,) = read_bundle(tmp_path / "bundle").edges
    assert np.isinf(edge.inputs["x"]).any()
    np.testing.assert_array_equal(edge.outputs[0], np.maximum(edge.inputs["x"], 0))
    assert main(tmp_path / "bundle", ["--policy", "sequential"]) == 0


def test_models_that_round_may_differ_by_more(model: Path, tmp_path: Path, cache: Path) -> None:
    bundled(model, tmp_path / "exact", cache)
    onnx.save(with_static_inputs(rounded_convolution(), SHAPES), tmp_path / "rounds.onnx")
    bundled(tmp_path / "rounds.onnx", tmp_path / "rounds", cache)
    limits = [reference_of(read_bundle(tmp_path / n)).tolerance for n in ("exact", "rounds")]
    assert limits[0].relative < limits[1].relative


@pytest.mark.parametrize(
    "options",
    [{"verify": Verify.tvm}, {"reference": "tvm"}, {"draw_weights": True}],
    ids=["verify", "reference", "drawn"],
)
def test_it_may_hold_what_tvm_computes(
    options: dict[str, Any], model: Path, tmp_path: Path, cache: Path
) -> None:
    assert bundled(model, tmp_path / "bundle", cache, **options) == "TVM's own build"


def test_a_run_compares_what_it_is_to(
    model: Path,
    tmp_path: Path,
    cache: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    shorten(monkeypatch.setattr)
    folder = tmp_path / "bundle"
    bundled(model, folder, cache, verify=Verify.off)
    assert read_bundle(folder).reference_outputs == []
    assert main(folder, ["--policy", "sequential"]) == 0
    assert "(--verify off)" in capsys.readouterr().out
    results = json.loads((folder / "results" / "results.json").read_text())
    assert results["reference"] is None
    assert {row["max_rel_error"] for row in results["policies"]} == {None}
