"""``tvm-ios optimize`` with a range of shapes, as a user meets it."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pytest

from tests.cli.command_line import tvm_ios
from tests.dynamic_models.dynamic import bert, unet


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> str:
    path = tmp_path_factory.mktemp("models") / "bert.onnx"
    onnx.save(bert(), path)
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
    made = tvm_ios("optimize", model, *shape, "--lanes", "1", "-o", tmp_path / "out")
    assert made.code == 0, made.stderr
    for text in ("batch 1..4, sequence 2..8", "milliseconds", "compared with ONNX Runtime"):
        assert text in made.stdout


@pytest.mark.parametrize(
    ("arguments", "option"),
    [
        (("--policy", "ios"), "--policy"),
        (("--batch", "2"), "--batch"),
        (("--lanes", "1,2"), "--lanes"),
        (("--target", "cuda"), "--target"),
        (("--memory-budget", "1M"), "--memory-budget"),
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
    assert tvm_ios("optimize", model, *shape, "--lanes", "2", "-o", out).code == 0
    explained = tvm_ios("explain", out, *at, "--repeat", "10", "--json").json
    assert explained["latency_ms"] > 0
    tvm_ios("trace", out, *at, "--sequential", "-o", tmp_path / "trace.json", "--json")
    page = tmp_path / "page.html"
    assert tvm_ios("report", out, *at, "--repeat", "10", "-o", page).code == 0
    assert page.stat().st_size > 1000
    assert tvm_ios("info", out, "--json").json["problem"] is None
    tvm_ios("explain", out, "--at", "input_ids:9,20").refuses("input_ids", "9, 20")
