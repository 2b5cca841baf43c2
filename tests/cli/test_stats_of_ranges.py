"""``tvm-ios stats`` with a range of shapes."""

from __future__ import annotations

from pathlib import Path

import onnx
import pytest

from tests.cli.command_line import tvm_ios
from tests.dynamic_models.dynamic import bert


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> str:
    path = tmp_path_factory.mktemp("models") / "bert.onnx"
    onnx.save(bert(), path)
    return str(path)


def test_what_one_graph_depends_on(model: str) -> None:
    found = tvm_ios("stats", model, "--shape", "input_ids:1..32,2..32", "--json").json
    assert [(s["name"], s["least"], s["most"]) for s in found["symbols"]] == [
        ("batch", 1, 32),
        ("sequence", 2, 32),
    ]
    assert found["expressions"].keys() == {"batch", "sequence"}
    assert 0 < found["open_tensors"] < found["tensors"]
    assert found["special"] == []
    text = tvm_ios("stats", model, "--shape", "input_ids:1..32,1..32").stdout
    assert "one graph serves all shapes" in text
    assert "at batch = 1, sequence = 1" in text


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        (["--shape", "input_ids:1..32,1..512"], "sequence"),
        (["--shape", "words:1..32"], "words"),
    ],
)
def test_ranges_that_the_model_does_not_have(model: str, arguments: list[str], named: str) -> None:
    assert named in tvm_ios("stats", model, *arguments).sentence


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        (["--shape", "input_ids:32..1,4"], "32..1"),
        (["--shape", "input_ids:1..4,8", "--batch", "2"], "--batch"),
        (["--shape", "input_ids:1..4,8", "--policy", "graphturbo"], "--policy"),
    ],
)
def test_options_that_go_with_no_range(model: str, arguments: list[str], named: str) -> None:
    outcome = tvm_ios("stats", model, *arguments)
    assert outcome.code == 2
    assert named in outcome.stderr


def test_only_models_of_onnx_have_ranges(tmp_path: Path) -> None:
    (tmp_path / "graph.json").write_text("{}")
    outcome = tvm_ios("stats", str(tmp_path / "graph.json"), "--shape", "x:1..4")
    assert "ONNX" in outcome.sentence
