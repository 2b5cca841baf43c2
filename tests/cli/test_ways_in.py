"""Every way in for every command, and what is said of what cannot come in."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tvm

from relay_passes.relax.importer import import_onnx
from tests.brief import shorten
from tests.cli.command_line import tvm_ios, tvm_ios_briefly
from tests.onnx_sketch import Sketch, relative_error, run_on
from tvm_ios.models.load import load_onnx


def flexible() -> Any:
    """Batch and height are open; the classifier is reached by arithmetic on the shape."""
    sketch = Sketch("batch", 3, "height", 8)
    x = sketch.op("Relu", sketch.conv("x", 3, 4, strides=[2, 2]))
    batch = sketch.op("Gather", sketch.op("Shape", x), sketch.const(np.array([0])))
    flat = sketch.op("Concat", batch, sketch.const(np.array([-1])), axis=0)
    return sketch.model(
        sketch.op("MatMul", sketch.op("Reshape", x, flat), sketch.normal(4 * 4 * 4, 5))
    )


def write(model: Any, path: Path) -> Path:
    path.write_bytes(model.SerializeToString())
    return path


@pytest.fixture
def model(tmp_path: Path) -> Path:
    return write(flexible(), tmp_path / "flexible.onnx")


SHAPE = ("--shape", "x:2,3,8,8")


def test_a_dynamic_model_is_optimised_at_the_shape_given(
    model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shorten(monkeypatch.setattr)
    limits = ["--lanes", 1, "--policy", "ios-both", "-o", tmp_path / "out", "--json"]
    done = tvm_ios("optimize", model, *SHAPE, *limits).json
    assert max(row["max_rel_error"] for row in done["policies"]) <= 1e-5
    x = np.random.default_rng(0).standard_normal((2, 3, 8, 8), dtype=np.float32)
    np.savez(tmp_path / "x.npz", x=x)
    given, result = tmp_path / "x.npz", tmp_path / "y.npz"
    ran = tvm_ios("run", tmp_path / "out", "--input", given, "--output", result, "--json").json
    (name,) = ran["outputs"]
    with np.load(result) as arrays:
        assert relative_error([arrays[name]], run_on(flexible(), {"x": x})) <= 1e-5
    np.savez(given, x=x[:1])
    wrong = tvm_ios("run", tmp_path / "out", "--input", given)
    wrong.refuses("'x'", "[1, 3, 8, 8]", "[2, 3, 8, 8]")


def test_stats_and_schedules_of_a_dynamic_model(model: Path) -> None:
    assert tvm_ios("stats", model, *SHAPE, "--json").json["total"]["operators"] == 2
    assert len(tvm_ios("schedule", model, *SHAPE, "--json").json["stages"]) == 2


@pytest.mark.parametrize("command", ["stats", "schedule", "optimize"])
def test_a_dynamic_dimension_is_refused_with_the_option_to_give(command: str, model: Path) -> None:
    wanted = ("'x'", "dimension 0", "'batch'", "--shape x:1,3,height,8", "number for height")
    tvm_ios(command, model).refuses(*wanted)


@pytest.mark.parametrize(
    ("shapes", "named"),
    [
        (["y:1"], ("'y'", "x")),
        (["x:1,3,8"], ("'x'", "4 dimensions", "(batch,3,height,8)", "(1,3,8)")),
        (["x:1,4,8,8"], ("dimension 1", "'x'", 3, 4)),
    ],
)
def test_shapes_that_the_model_cannot_have(
    shapes: list[str], named: tuple[object, ...], model: Path
) -> None:
    options = [part for shape in shapes for part in ("--shape", shape)]
    tvm_ios("schedule", model, *options).refuses(*named)


@pytest.mark.parametrize("shapes", [["x"], ["x:a"], ["x:-1"], ["x:1", "x:1"]])
def test_shapes_that_are_none_are_a_wrong_use(shapes: list[str], model: Path) -> None:
    options = [part for shape in shapes for part in ("--shape", shape)]
    for command in ("stats", "schedule", "optimize"):
        outcome = tvm_ios(command, model, *options)
        assert outcome.code == 2
        assert "--shape" in outcome.stderr
        assert "Traceback" not in outcome.stderr


def test_graphs_are_scheduled_but_not_measured(tmp_path: Path) -> None:
    path = tmp_path / "bare.json"
    path.write_text('{"blocks": [{"operators": 1, "edges": []}]}')
    for command in (["optimize", path], ["schedule", path, "--cost", "measured"]):
        tvm_ios(*command).refuses(path, "block graph", "--cost DEVICE")
    for command in (["stats", path, "--shape", "x:1"], ["schedule", path]):
        tvm_ios(*command).refuses("`tvm-ios stats`")


def _random() -> Any:
    sketch = Sketch(2, 2)
    return sketch.model(sketch.op("RandomNormalLike", "x", name="noise"))


def _half_known_to_tvm() -> Any:
    sketch = Sketch(4, 4)
    largest = sketch.op("TopK", "x", sketch.const(np.array([2])), outputs=2, sorted=0)
    return sketch.model(largest[0])


REFUSED: dict[str, tuple[Any, ...]] = {
    "operator": (
        _random,
        *(
            "operator RandomNormalLike (node 'noise', output 'v0_0') of m",
            "other numbers in each run",
        ),
    ),
    "attribute": (
        _half_known_to_tvm,
        *("operator TopK (node 'TopK_0', output 'v0_0') of m", f"TVM {tvm.__version__}"),
        "(TopK sorted must be 1 for Relax frontend)",
    ),
}


@pytest.mark.parametrize("case", REFUSED)
def test_models_that_cannot_be_built(case: str, tmp_path: Path) -> None:
    make, *named = REFUSED[case]
    path = write(make(), tmp_path / "m.onnx")
    tvm_ios("optimize", path, "-o", tmp_path / "out", "--json").refuses(*named)
    assert not (tmp_path / "out").exists()


@pytest.mark.slow
def test_outputs_that_are_inputs_or_one_tensor_twice(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shorten(monkeypatch.setattr)
    sketch = Sketch(1, 4)
    y = sketch.op("Relu", "x")
    path = write(sketch.model(y, "x", sketch.op("Identity", y)), tmp_path / "m.onnx")
    limits = ["--lanes", 1, "--policy", "sequential", "-o", tmp_path / "out"]
    assert tvm_ios("optimize", path, *limits).code == 0
    outputs = tvm_ios("run", tmp_path / "out", "--json").json["outputs"]
    assert len(outputs) == 3


@pytest.mark.slow
def test_a_relax_module_goes_all_the_way(tmp_path: Path) -> None:
    path = tmp_path / "block.json"
    path.write_text(tvm.ir.save_json(import_onnx(load_onnx("inception_block"))))
    by_name = tvm_ios("stats", "inception_block", "--json").json
    assert tvm_ios("stats", path, "--json").json == {**by_name, "model": "block"}
    scheduled = tvm_ios("schedule", path, "--json").json
    expected = tvm_ios("schedule", "inception_block", "--json").json
    assert scheduled["latency_ms"] == pytest.approx(expected["latency_ms"])
    limits = ["--lanes", 1, "--max-measurements", 0, "-o", tmp_path / "out", "--json"]
    done = tvm_ios_briefly("optimize", path, *limits).json
    assert max(row["max_rel_error"] for row in done["policies"]) <= 1e-5
    assert tvm_ios("run", tmp_path / "out", "--json").json["outputs"]["output"]
