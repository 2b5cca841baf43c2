"""``tvm-ios bench --at`` on a small encoder with open dimensions, as a user meets it."""

from __future__ import annotations

import importlib.util
import json
from pathlib import Path
from typing import Any

import onnx
import pytest

from tests.cli.command_line import Outcome, tvm_ios, tvm_ios_briefly
from tests.dynamic_models.dynamic import bert

pytest.importorskip("onnxruntime")

RANGE = ("--shape", "input_ids:1..8,1..32")
OTHERS = ["exact", "onnxruntime"]
OTHERS += ["openvino"] if importlib.util.find_spec("openvino") is not None else []


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("models") / "bert.onnx"
    onnx.save(bert(layers=1), path)
    return path


@pytest.fixture(scope="module")
def measured(model: Path) -> Outcome:
    brief = ("--lanes", 2, "--rounds", 6, "--processes", 1, "--output", model.with_suffix(".json"))
    against = ("--against", ",".join(OTHERS))
    return tvm_ios_briefly("bench", model, *RANGE, "--at", "1x7,8x32", *against, *brief)


def test_each_shape_is_a_row_of_the_document(measured: Outcome, model: Path) -> None:
    assert measured.code == 0, measured.stderr
    document: dict[str, Any] = json.loads(model.with_suffix(".json").read_text())
    assert list(document) == ["machine", "settings", "networks", "geomean", "failed"]
    assert document["failed"] == []
    assert document["settings"]["ranges"] == [RANGE[1]]
    found = [(n["model"], n["at"], n["batch"], n["shapes"]) for n in document["networks"]]
    assert found == [
        ("bert", "1x7", 1, {"input_ids": [1, 7], "attention_mask": [1, 7]}),
        ("bert", "8x32", 8, {"input_ids": [8, 32], "attention_mask": [8, 32]}),
    ]
    for network in document["networks"]:
        assert list(network["latency_ms"]) == ["ours", *OTHERS]
        assert list(network["ratio"]) == OTHERS
        assert all(ratio["pairs"] == 6 for ratio in network["ratio"].values())
        assert network["reference"] == "onnxruntime"
        assert max(network["max_rel_error"].values()) <= 1e-5


def test_the_table_names_the_shapes(measured: Outcome) -> None:
    for text in ("bert at 1x7", "bert at 8x32", "our program was compared with ONNX Runtime"):
        assert text in measured.stdout


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        (("--shape", "input_ids:1..8,1..32"), "--at"),
        (("--shape", "input_ids:1,7", "--at", "1x7"), "range"),
        ((*RANGE, "--at", "1by7"), "1by7"),
        ((*RANGE, "--at", ","), "names no shapes"),
        ((*RANGE, "--at", "1x7", "--batch", 2), "--batch"),
        ((*RANGE, "--at", "1x7", "--against", "abacus"), "abacus"),
    ],
)
def test_wrong_uses_are_named(model: Path, arguments: tuple[object, ...], named: str) -> None:
    outcome = tvm_ios("bench", model, *arguments)
    assert outcome.code == 2
    assert named in " ".join(outcome.stderr.split())


def test_shapes_outside_the_range_are_refused(model: Path) -> None:
    brief = ("--lanes", 1, "--rounds", 6, "--processes", 1)
    tvm_ios("bench", model, *RANGE, "--at", "9x7", *brief).refuses("9x7", "1..8")


def test_peers_of_one_shape_are_refused(model: Path) -> None:
    outcome = tvm_ios("bench", model, *RANGE, "--at", "1x7", "--against", "tvm")
    outcome.refuses("tvm", "open dimensions")
