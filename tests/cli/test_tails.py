"""Commands say what of a detector runs after the program, and give the whole model's outputs."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import numpy_helper

from relay_passes import SearchOptions
from relay_passes.load import load_model
from tests.cli.command_line import tvm_ios, tvm_ios_briefly
from tests.dynamic_models.detection import yolo_with_suppression
from tests.onnx_sketch import relative_error, run_on
from tests.refusals import refused, require_names
from tvm_ios.api import Options, optimize
from tvm_ios.api.bundle import bundle_model
from tvm_ios.api.tails import require_same_tail
from tvm_ios.contest.outputs import VerificationError, Verify
from tvm_ios.errors import UserError
from tvm_ios.onnx.tail import Tail

SAYS = ("the last", "NonMaxSuppression", "ONNX Runtime")


@pytest.fixture(scope="module")
def detector(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("tails") / "yolo.onnx"
    onnx.save(yolo_with_suppression(), str(path))
    return path


@pytest.mark.slow
def test_optimize_run_explain_and_bench(detector: Path, tmp_path: Path) -> None:
    out, limits = tmp_path / "out", ["--lanes", 1, "--policy", "greedy"]
    made = tvm_ios_briefly("optimize", detector, "-o", out, *limits, "--json").json
    require_names(made["notes"][0], *SAYS)
    # The program's outputs were compared, which are boxes and scores before they are sorted out.
    assert made["search"]["reference"].startswith("ONNX Runtime")
    image = np.random.default_rng(1).standard_normal((1, 3, 32, 32)).astype(np.float32)
    np.savez(tmp_path / "in.npz", images=image)
    ran = tvm_ios(
        "run", out, "--input", tmp_path / "in.npz", "--output", tmp_path / "y.npz", "--json"
    ).json
    require_names(ran["tail"], *SAYS)
    results = np.load(tmp_path / "y.npz")
    expected = run_on(yolo_with_suppression(), {"images": image})
    assert results.files == ["boxes", "scores", "classes"]
    assert relative_error([results[name] for name in results.files], expected) <= 1e-4
    explained = tvm_ios("explain", out, "--repeat", 3, "--json")
    require_names(explained.json["tail"], *SAYS)
    assert explained.json["tail"] in explained.stderr
    assert "NonMaxSuppression" in tvm_ios("run", out).stdout
    compared = tvm_ios_briefly(
        "bench", detector, *limits, "--against", "onnxruntime", "--json"
    ).json
    assert compared["networks"][0]["latency_ms"].keys() >= {"ours", "onnxruntime"}


@pytest.mark.parametrize(
    "command",
    [
        ("stats",),
        ("stats", "--policy", "graphturbo"),
        ("memory", "--scheduler", "rpo"),
        ("memory", "--scheduler", "rpo", "--units"),
        ("schedule", "--policy", "greedy"),
        ("schedule", "--policy", "ios-both", "--pareto"),
        pytest.param(
            ("schedule", "--policy", "sequential", "--cost", "measured", "--lanes", 1),
            marks=pytest.mark.slow,
        ),
    ],
    ids=lambda command: " ".join(map(str, command)),
)
def test_what_is_left_out_is_said(command: tuple[object, ...], detector: Path) -> None:
    name, *options = command
    done = tvm_ios(name, detector, *options, "--json")
    sentence = done.json["tail"]
    require_names(sentence, *SAYS)
    assert f"tvm-ios: {sentence}" in done.stderr.splitlines()
    whole = tvm_ios(name, "inception_block", *options, "--json")
    assert whole.json["tail"] is None
    assert "tvm-ios:" not in whole.stderr


@pytest.mark.slow
def test_tune_says_it(detector: Path, tmp_path: Path) -> None:
    pytest.importorskip("xgboost")
    options = ["--log", tmp_path / "log", "--lanes", 1, "--trials", 2, "--time-limit", 1]
    done = tvm_ios("tune", detector, *options, "--json")
    require_names(done.json["tail"], *SAYS)
    assert done.json["tail"] in done.stderr


def test_compiled_for_elsewhere(detector: Path, tmp_path: Path) -> None:
    options = SearchOptions(lanes=1)
    how = Options(search=options, cost="cpu", policies=["sequential"])
    compiled = optimize(detector, tmp_path / "out", how)
    require_names(compiled.notes[0], *SAYS)
    assert (tmp_path / "out" / "tail.onnx").exists()


def test_a_bundle_has_nobody_to_run_it(detector: Path, tmp_path: Path) -> None:
    with refused(UserError, *SAYS, "bundle"):
        bundle_model(
            detector, tmp_path / "b", options=SearchOptions(lanes=1), policies=["sequential"]
        )


def test_a_tail_that_computes_something_else_is_seen(detector: Path) -> None:
    loaded = load_model(detector)
    require_same_tail(loaded, Verify.onnx)
    assert loaded.tail is not None
    wrong: Any = onnx.ModelProto()
    wrong.CopyFrom(loaded.tail.model)
    for weight in wrong.graph.initializer:
        # The least score that stays.
        if weight.data_type == onnx.TensorProto.FLOAT:
            array = numpy_helper.to_array(weight) * np.float32(0.5)
            weight.CopyFrom(numpy_helper.from_array(array, weight.name))
    with refused(VerificationError, "yolo"):
        require_same_tail(replace(loaded, tail=Tail(wrong)), Verify.onnx)
    require_same_tail(replace(loaded, tail=Tail(wrong)), Verify.off)
