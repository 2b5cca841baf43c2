"""Commands with outputs that nothing computes, tensors without elements, and unusual names."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest

from tests.cli.command_line import tvm_ios, tvm_ios_briefly
from tests.interface_models import WHAT, interface_model, write_interface_model

_SLOW = pytest.mark.slow


@pytest.mark.parametrize(
    "what", [w if w == "no elements" else pytest.param(w, marks=_SLOW) for w in WHAT]
)
def test_outputs_are_those_that_onnx_defines(what: str, tmp_path: Path) -> None:
    path, feeds, expected = write_interface_model(what, tmp_path)
    out = tmp_path / "out"
    options = ["--lanes", 1, "--policy", "ios-both", "--json"]
    document = tvm_ios_briefly("optimize", path, "-o", out, *options).json
    assert {row["policy"] for row in document["policies"]} >= {"tvm", "sequential"}
    assert "ios-both" in document["outcomes"]
    np.savez(tmp_path / "x.npz", **feeds)
    done = tvm_ios("run", out, "--input", tmp_path / "x.npz", "--output", tmp_path / "y.npz")
    assert done.code == 0, done.stderr
    outputs = np.load(tmp_path / "y.npz")
    names = [value.name for value in interface_model(what).graph.output]
    assert outputs.files == names
    for name, array in zip(names, expected, strict=True):
        assert outputs[name].dtype == array.dtype
        np.testing.assert_allclose(outputs[name], array, rtol=1e-5, atol=1e-6)


@pytest.mark.slow
@pytest.mark.parametrize("what", ["nothing", "returned"])
def test_all_policies(what: str, tmp_path: Path) -> None:
    path, _, _ = write_interface_model(what, tmp_path)
    options = ["--lanes", 2, "--max-measurements", 2, "--json"]
    command = ["optimize", path, "-o", tmp_path / "out", *options]
    document = tvm_ios_briefly(*command).json
    assert {row["max_rel_error"] for row in document["policies"]} == {0.0}
    command = ["bench", path, *options]
    assert tvm_ios_briefly(*command).json["networks"]


def test_a_model_that_computes_nothing_without_tvm(tmp_path: Path) -> None:
    path, _, _ = write_interface_model("nothing", tmp_path)
    for policy in ("ios-both", "rammer", "greedy"):
        options = ["--cost", "v100", "--policy", policy, "--json"]
        assert tvm_ios("schedule", path, *options).json["stages"] == []
    assert tvm_ios("stats", path, "--json").json["total"]["operators"] == 0
    schedulers = tvm_ios("memory", path, "--json").json["schedulers"]
    assert {row["peak_kib"] for row in schedulers} == {0}


@pytest.mark.parametrize("shape", [[], ["--shape", "x:2,3"]], ids=["as declared", "given"])
def test_0_for_an_unknown_extent(shape: list[str], tmp_path: Path) -> None:
    head = '<ir_version: 8, opset_import: ["": 17]> m '
    text = f"{head} (float[0, 3] x) => (float[0, 3] y) {{ y = Relu(x) }}"
    onnx.save(onnx.parser.parse_model(text), tmp_path / "m.onnx")
    options = ["--cost", "v100", "--lanes", 1, "--json", *shape]
    out = tmp_path / "out"
    document = tvm_ios("optimize", tmp_path / "m.onnx", "-o", out, *options).json
    (output,) = tvm_ios("run", out, "--json").json["outputs"].values()
    assert output["shape"] == ([2, 3] if shape else [0, 3])
    told = [note for note in document["notes"] if "--shape x:N,3" in note]
    assert len(told) == (0 if shape else 1)
