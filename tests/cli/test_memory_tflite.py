"""``tvm-ios memory`` with a ``.tflite`` file."""

from __future__ import annotations

from pathlib import Path

import pytest

pytest.importorskip("tflite_micro")

from tests.cli.command_line import tvm_ios
from tests.memory.tiny_models import TINY_MODELS
from tests.tflite_sketch import run_micro


@pytest.fixture
def model(tmp_path: Path) -> Path:
    path = tmp_path / "model.tflite"
    path.write_bytes(TINY_MODELS["inception"]())
    return path


def test_the_planned_model_is_written(model: Path) -> None:
    output = model.parent / "planned.tflite"
    told = tvm_ios("memory", model, "-o", output).stdout
    for words in ("71,424", "55,296", "needs less", "the order of operators and an offline plan"):
        assert words in told
    assert run_micro(output.read_bytes()).head == 55_296
    document = tvm_ios("memory", model, "--json").json
    assert (document["arena_before_kib"], document["arena_kib"]) == (71_424 / 1024, 54.0)
    assert document["proof"] is True


def test_a_model_that_gains_nothing_is_written_as_it_came(tmp_path: Path) -> None:
    data = TINY_MODELS["autoencoder"]()
    (tmp_path / "model.tflite").write_bytes(data)
    output = tmp_path / "planned.tflite"
    assert "nothing is gained" in tvm_ios("memory", tmp_path / "model.tflite", "-o", output).stdout
    assert output.read_bytes() == data


def test_what_is_refused(model: Path) -> None:
    output = model.parent / "planned.tflite"
    tvm_ios("memory", model, "--budget", 50_000, "-o", output).refuses("50,000", "55,296")
    assert not output.exists()
    model.write_bytes(model.read_bytes()[:5000])
    tvm_ios("memory", model).refuses("model.tflite", "cut off")
    tvm_ios("memory", model.parent / "none.tflite").refuses("none.tflite")


@pytest.mark.parametrize(
    "options",
    [
        ("--rewrite",),
        ("--units",),
        ("--bank", "sram=1M:1"),
        ("--scheduler", "rpo,optimal"),
        ("-o", "planned.onnx"),
    ],
)
def test_options_of_other_files_are_wrong_uses(model: Path, options: tuple[str, ...]) -> None:
    outcome = tvm_ios("memory", model, *options)
    assert outcome.code == 2
    assert options[0].removeprefix("-o") in outcome.stderr
