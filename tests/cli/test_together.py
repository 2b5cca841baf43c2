"""Several models as one program, by the command line: what it makes, and what it refuses."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import onnx
import pytest

from tests.cli.command_line import tvm_ios, tvm_ios_briefly
from tests.onnx_sketch import Sketch, run_on
from tvm_ios.schedule.schedule import Schedule


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """Two small networks that call their inputs alike, of different opsets."""
    folder = tmp_path_factory.mktemp("models")
    paths: list[Path] = []
    for name, channels, opset in (("left", 8, 13), ("right", 16, 17)):
        sketch = Sketch(1, 3, 12, 11, opset=opset, seed=channels)
        stem = sketch.op("Relu", sketch.conv("x", 3, channels))
        ways = [sketch.op("Relu", sketch.conv(stem, channels, 8, kernel)) for kernel in (1, 3)]
        joined = sketch.conv(sketch.op("Concat", *ways, axis=1), 16, 10, kernel=1)
        paths.append(folder / f"{name}.onnx")
        onnx.save(sketch.model(sketch.op("GlobalAveragePool", joined)), paths[-1])
    return paths


def test_a_program_of_two_models_computes_what_they_do(models: list[Path], tmp_path: Path) -> None:
    plan, out = tmp_path / "plan.json", tmp_path / "out"
    found = tvm_ios("schedule", *models, "--together", "-o", plan, "--json").json
    assert (found["model"], found["policy"]) == ("left+right", "together")
    # On this device neither model fills what there is.
    groups = [group for stage in Schedule.load(plan).stages for group in (stage.groups,)]
    assert max(map(len, groups)) > 1
    limits = ("--lanes", 2, "--max-measurements", 4, "--fallback", "none")
    command = ("optimize", *models, "--together", "--policy", "together", "--schedule", plan)
    done = tvm_ios_briefly(*command, *limits, "-o", out, "--json").json
    rows = {row["policy"]: row for row in done["policies"]}
    assert "together" in done["outcomes"]
    # The given one runs stages of both side by side, and is compared with ONNX Runtime's outputs.
    assert rows["given"]["max_rel_error"] < 1e-4
    rng = np.random.default_rng(1)
    feeds = {
        f"{path.stem}.x": rng.standard_normal((1, 3, 12, 11), dtype=np.float32) for path in models
    }
    np.savez(tmp_path / "x.npz", **feeds)
    tvm_ios("run", out, "--input", tmp_path / "x.npz", "--output", tmp_path / "y.npz")
    with np.load(tmp_path / "y.npz") as results:
        assert len(results.files) == 2
        for path, name in zip(models, results.files, strict=True):
            model = onnx.load(path)
            assert name == f"{path.stem}.{model.graph.output[0].name}" or name in {
                value.name for value in model.graph.output
            }
            (expected,) = run_on(model, {"x": feeds[f"{path.stem}.x"]})
            np.testing.assert_allclose(results[name], expected, rtol=1e-4, atol=1e-5)


def test_schedules_say_which_models_they_are_of(models: list[Path], tmp_path: Path) -> None:
    plan = tmp_path / "plan.json"
    tvm_ios("schedule", *models, "--together", "--policy", "ios-both", "-o", plan)
    names = json.loads(plan.read_text())["units"]
    assert all(name.startswith(("left.", "right.")) for name in names)


@pytest.mark.parametrize("command", ["schedule", "optimize"])
@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        (("squeezenet", "mobilenet_v2"), "--together"),
        (("squeezenet", "--together"), "--together"),
    ],
)
def test_several_models_are_said_to_be_together(
    command: str, arguments: tuple[str, ...], named: str
) -> None:
    found = tvm_ios(command, *arguments)
    assert found.code == 2
    assert named in found.stderr


@pytest.mark.parametrize(
    ("second", "named"),
    [("squeezenet", "squeezenet"), ("m.pt2", "m.pt2"), ("no.bundle", "no.bundle")],
)
@pytest.mark.parametrize("command", ["schedule", "optimize"])
def test_what_cannot_run_together(command: str, second: str, named: str) -> None:
    tvm_ios(command, "squeezenet", second, "--together").refuses(named)
