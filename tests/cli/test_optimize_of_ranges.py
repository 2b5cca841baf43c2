"""``tvm-ios optimize`` with a range of shapes, as a user meets it."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pytest

from tests.cli.command_line import tvm_ios
from tests.dynamic_models.dynamic import bert, unet

#: The model takes longer to read: no schedule is searched after it.
_UNSEARCHED = ("--lanes", "2", "--time-limit", "1")


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> str:
    path = tmp_path_factory.mktemp("models") / "bert.onnx"
    onnx.save(bert(layers=1), path)
    return str(path)


def test_a_program_for_a_range_is_made_and_run(model: str, tmp_path: Path) -> None:
    out = tmp_path / "out"
    shape = ("--shape", "input_ids:1..8,1..32")
    made = tvm_ios("optimize", model, *shape, "--lanes", "2", "-o", out, "--json").json
    assert made["symbols"] == {"batch": "1..8", "sequence": "1..32"}
    assert made["error"] < 1e-5
    assert len(made["compared"]) >= 9
    ran = tvm_ios("run", out, "--shape", "input_ids:3,17", "--json").json
    shapes = {name: output["shape"] for name, output in ran["outputs"].items()}
    assert shapes == {"last_hidden_state": [3, 17, 16], "pooler_output": [3, 16]}
    words = np.arange(10).reshape(2, 5) % 7
    np.savez(tmp_path / "in.npz", input_ids=words, attention_mask=np.ones_like(words))
    tvm_ios("run", out, "--input", tmp_path / "in.npz", "--output", tmp_path / "out.npz", "--json")
    reference = onnxruntime.InferenceSession(model)
    expected = reference.run(None, {"input_ids": words, "attention_mask": np.ones_like(words)})
    outputs = np.load(tmp_path / "out.npz")
    np.testing.assert_allclose(outputs["pooler_output"], expected[1], rtol=1e-4, atol=1e-5)


def test_the_table_shows_the_range_and_the_times_in_it(model: str, tmp_path: Path) -> None:
    shape = ("--shape", "input_ids:1..4,2..8")
    made = tvm_ios("optimize", model, *shape, *_UNSEARCHED, "-o", tmp_path / "out")
    assert made.code == 0, made.stderr
    for text in ("batch 1..4, sequence 2..8", "milliseconds", "compared with ONNX Runtime"):
        assert text in made.stdout


@pytest.mark.parametrize(
    ("arguments", "option"),
    [
        (("--policy", "ios"), "--policy"),
        (("--batch", "2"), "--batch"),
        (("--target", "cuda"), "--target"),
        (("--measure", "full"), "options of the search"),
    ],
)
def test_options_of_programs_of_one_shape_are_refused(
    model: str, arguments: tuple[str, ...], option: str
) -> None:
    outcome = tvm_ios("optimize", model, "--shape", "input_ids:1..8,1..32", *arguments)
    assert outcome.code == 2
    assert option in outcome.stderr


def test_shapes_that_no_range_has_are_told(model: str) -> None:
    outcome = tvm_ios("optimize", model, "--shape", "input_ids:8..1,1..32")
    assert outcome.code == 2
    assert "8..1" in outcome.stderr
    tvm_ios("optimize", model, "--shape", "words:1..8,1..32").refuses("words", "input_ids")
    tvm_ios("optimize", model, "--shape", "input_ids:1..8").refuses("input_ids", "2 dimensions")


def test_without_a_shape_a_model_of_texts_has_ranges(model: str, tmp_path: Path) -> None:
    # The model knows 32 positions, which its table's name does not say.
    outcome = tvm_ios("optimize", model, "--lanes", "1", "-o", tmp_path / "out")
    assert "--shape input_ids:1..32,1..512" in outcome.stderr
    outcome.refuses("sequence", "shapes")
    assert not (tmp_path / "out").exists()


def test_without_a_shape_an_image_needs_one(tmp_path: Path) -> None:
    onnx.save(unet(), tmp_path / "unet.onnx")
    outcome = tvm_ios("optimize", tmp_path / "unet.onnx", "-o", tmp_path / "out")
    outcome.refuses("image", "--shape")


def test_an_executable_of_one_shape_has_no_other(tmp_path: Path, model: str) -> None:
    out = tmp_path / "out"
    shapes = ("--shape", "input_ids:2,5", "--policy", "sequential")
    assert tvm_ios("optimize", model, *shapes, "--lanes", "1", "-o", out).code == 0
    outcome = tvm_ios("run", out, "--shape", "input_ids:3,17")
    assert outcome.code == 2
    assert "--shape" in outcome.stderr


def test_a_program_for_a_range_is_shown_at_one_of_its_shapes(model: str, tmp_path: Path) -> None:
    out, at = tmp_path / "out", ("--at", "input_ids:4,20")
    shape = ("--shape", "input_ids:1..8,1..32")
    assert tvm_ios("optimize", model, *shape, *_UNSEARCHED, "-o", out).code == 0
    explained = tvm_ios("explain", out, *at, "--repeat", "10", "--json").json
    assert explained["latency_ms"] > 0
    tvm_ios("trace", out, *at, "--sequential", "-o", tmp_path / "trace.json", "--json")
    page = tmp_path / "page.html"
    assert tvm_ios("report", out, *at, "--repeat", "10", "-o", page).code == 0
    assert page.stat().st_size > 1000
    assert tvm_ios("info", out, "--json").json["problem"] is None
    tvm_ios("explain", out, "--at", "input_ids:9,20").refuses("input_ids", "9, 20")


def test_a_deployment_has_ranges_beside_exact_programs(model: str, tmp_path: Path) -> None:
    app = tmp_path / "app"
    shape = ("--shape", "input_ids:1..8,1..32")
    outcome = tvm_ios("optimize", model, *shape, "--lanes", "1,2", "--time-limit", "1", "-o", app)
    assert outcome.code == 0, outcome.stderr
    assert "input_ids:1..8x1..32" in "".join(outcome.stdout.split())
    exact = ("--shape", "input_ids:2,5", "--shape", "attention_mask:2,5")
    described = ("--policy", "sequential", "--cost", "cpu", "--lanes", "1", "--json")
    (alone,) = tvm_ios("optimize", model, *exact, *described, "-o", app).json["entries"]
    small = tvm_ios(
        *("optimize", model, "--shape", "input_ids:1..4,1..8", *_UNSEARCHED, "--json"),
        *("-o", app),
    ).json
    (narrow,), others = small["entries"], small["others"]
    assert len(others) == 3
    assert narrow["latency_ms"] > 0
    assert "-range-" in narrow["id"]
    ranges = {entry["id"] for entry in others} - {alone["id"]}
    # Weights are there once; kernels do not depend on the lanes.
    assert len(list((app / "entries").iterdir())) == 4
    assert len(list((app / "kernels").iterdir())) <= 3
    ran = tvm_ios("run", app, "--shape", "input_ids:5,17", "--reserve", "--json").json
    assert ran["entry"] in ranges
    assert ran["outputs"]["last_hidden_state"]["shape"] == [5, 17, 16]
    taken = {
        shape: tvm_ios("pick", app, "--shape", f"input_ids:{shape}", "--json").json["taken"]
        for shape in ("2,5", "3,5", "5,17")
    }
    assert taken == {"2,5": [alone["id"]], "3,5": [narrow["id"]], "5,17": [ran["entry"]]}
    tvm_ios("pick", app, "--shape", "input_ids:9,5").refuses("9x5", "1..8x1..32")
    told = tvm_ios("info", app)
    assert alone["id"] in "".join(told.stdout.split())
    assert len(tvm_ios("info", app, "--json").json["entries"]) == 4
    told = tvm_ios("info", app / "entries" / narrow["id"])
    assert "1..4x1..8" in told.stdout
    assert "KiB by the shape" in told.stdout
    words = np.arange(15).reshape(3, 5) % 7
    np.savez(tmp_path / "in.npz", input_ids=words, attention_mask=np.ones_like(words))
    tvm_ios("run", app, "--input", tmp_path / "in.npz", "--output", tmp_path / "out.npz", "--json")
    reference = onnxruntime.InferenceSession(model)
    expected = reference.run(None, {"input_ids": words, "attention_mask": np.ones_like(words)})
    outputs = np.load(tmp_path / "out.npz")
    np.testing.assert_allclose(outputs["pooler_output"], expected[1], rtol=1e-4, atol=1e-5)
    assert tvm_ios("prune", app, narrow["id"], "--json").json["removed"] == [narrow["id"]]
    left = tvm_ios("pick", app, "--shape", "input_ids:3,5", "--json").json["taken"]
    assert set(left) < ranges


def test_what_a_deployment_of_a_range_cannot_have_is_left_out(model: str, tmp_path: Path) -> None:
    shape = ("--shape", "input_ids:1..2,1..4", "--lanes", "1", "--arch", "x86-64-v2,sm_90")
    outcome = tvm_ios("optimize", model, *shape, "-o", tmp_path / "app", "--json")
    assert outcome.code == 1
    made = json.loads(outcome.stdout)
    assert len(made["entries"]) == 1
    assert "sm_90" in made["left_out"][0]


@pytest.mark.slow
def test_a_memory_budget_is_that_of_the_largest_shape(model: str, tmp_path: Path) -> None:
    shape = ("--shape", "input_ids:1..8,1..32", *_UNSEARCHED)
    enough = tvm_ios("optimize", model, *shape, "--memory-budget", "1G", "-o", tmp_path / "a")
    assert enough.code == 0
    most = tvm_ios("info", tmp_path / "a", "--json").json
    assert most["least_arena_bytes"] < most["arena_bytes"]
    half = ("--memory-budget", most["arena_bytes"] // 2, "-o", tmp_path / "b")
    tvm_ios("optimize", model, *shape, *half).refuses(
        "batch = 8, sequence = 32", "batch to 4 with every sequence", "sequence to"
    )
    little = ("--memory-budget", most["arena_bytes"] // 64, "-o", tmp_path / "b")
    tvm_ios("optimize", model, *shape, *little).refuses("what fits is batch to", "with sequence to")
    tvm_ios("optimize", model, *shape, "--memory-budget", 64, "-o", tmp_path / "b").refuses(
        "the least shape needs"
    )
    assert not (tmp_path / "b").exists()
