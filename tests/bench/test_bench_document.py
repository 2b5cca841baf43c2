"""The document of ``bench``: means, and what may be resumed."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runtime_ext.execution.bound_model import Taken
from tests.refusals import refused
from tvm_ios.bench.bench import NetworkResult, geometric_means
from tvm_ios.bench.document import BenchDocument
from tvm_ios.cli.tables.benched import print_benched
from tvm_ios.contest.pairs import PairedRatio
from tvm_ios.errors import UserError

MACHINE = {"processor": "a CPU", "lanes": 2, "versions": {"torch": "1"}, "date": "today"}
SETTINGS = {"against": ["torch"], "rounds": 6}


def result(model: str, ratio: float, failed: dict[str, str] | None = None) -> NetworkResult:
    return NetworkResult(
        model=model,
        batch=1,
        kept="greedy",
        latency={"ours": ratio * 1e-3, "torch": 1e-3},
        ratio={"torch": PairedRatio(ratio, ratio, ratio, 6)},
        max_rel_error={"ours": 1e-7, "torch": 0.0},
        reference="torch",
        verified="PyTorch 2",
        failed=failed or {},
        taken={"torch": Taken(0.5, 1.0)},
    )


def document(**changes: Any) -> BenchDocument:
    return BenchDocument(MACHINE | changes, SETTINGS)


@given(st.lists(st.floats(0.01, 100), min_size=1, max_size=8))
def test_geometric_means(ratios: list[float]) -> None:
    """Of all; and turning every ratio around turns the mean around."""
    mean = geometric_means([{"torch": ratio} for ratio in ratios])["torch"]
    assert math.isclose(mean ** len(ratios), math.prod(ratios), rel_tol=1e-6)
    inverse = geometric_means([{"torch": 1 / ratio} for ratio in ratios])["torch"]
    assert math.isclose(mean * inverse, 1, rel_tol=1e-9)


def test_a_mean_is_over_the_networks_that_the_runner_ran() -> None:
    means = geometric_means([{"torch": 2.0, "tvm": 3.0}, {"torch": 8.0}])
    assert means == pytest.approx({"torch": 4.0, "tvm": 3.0})


def test_what_is_saved_can_be_resumed(tmp_path: Path) -> None:
    path = tmp_path / "results" / "bench.json"
    first = document()
    first.add(result("a", 0.5))
    first.add(result("b", 2.0))
    first.save(path)
    second = document(date="tomorrow")
    second.resume(path)
    second.add(result("c", 8.0))
    assert [name for name in "abcd" if second.has(name)] == ["a", "b", "c"]
    assert second.to_json()["geomean"] == pytest.approx({"torch": 2.0})


def test_networks_have_shapes_each(tmp_path: Path) -> None:
    path = tmp_path / "bench.json"
    # Once they were one setting of all.
    before = BenchDocument(MACHINE, SETTINGS | {"shapes": {"x": [1, 2]}})
    before.add(result("a", 0.5))
    (row,) = before.to_json()["networks"]
    del row["shapes"]
    path.write_text(json.dumps({**before.to_json(), "networks": [row]}))
    for shapes, measured in (({"x": (1, 2)}, True), ({"x": (1, 3)}, False), ({}, False)):
        later = BenchDocument(MACHINE, SETTINGS, shapes)
        later.resume(path)
        assert later.has("a") is measured
        later.add(result("b", 2.0))
        assert [row["shapes"] for row in later.to_json()["networks"]] == [
            {"x": [1, 2]},
            {name: list(extents) for name, extents in shapes.items()},
        ]


def test_nothing_to_resume_is_a_beginning(tmp_path: Path) -> None:
    begun = document()
    begun.resume(tmp_path / "none.json")
    assert begun.to_json()["networks"] == []


@pytest.mark.parametrize("changes", [{"lanes": 4}, {"versions": {"torch": "2"}}])
def test_another_machine_is_not_resumed(changes: dict[str, Any], tmp_path: Path) -> None:
    path = tmp_path / "bench.json"
    document().save(path)
    with refused(UserError, path, "--output", "--resume"):
        document(**changes).resume(path)


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"machine": {}, "networks": 3}'])
def test_another_file_is_not_resumed(text: str, tmp_path: Path) -> None:
    path = tmp_path / "bench.json"
    path.write_text(text)
    with refused(UserError, path, "--output"):
        document().resume(path)


def test_failures_are_kept_apart() -> None:
    report = document()
    report.add(result("a", 0.5, {"tvm": "it\nfailed"}))
    report.add_failure("b", None, "no such file")
    assert report.failed == [
        {"model": "a", "runner": "tvm", "error": "it failed"},
        {"model": "b", "runner": None, "error": "no such file"},
    ]


def test_the_table_says_how_much_a_peer_took(capsys: pytest.CaptureFixture[str]) -> None:
    report = BenchDocument(MACHINE | {"peak": {}}, SETTINGS)
    report.add(result("a", 0.5))
    print_benched(report.to_json())
    said = " ".join(capsys.readouterr().out.split())
    assert "50.0 %" in said
    assert "torch took 50.0 % of the operators, with all of the multiply-adds;" in said
    data = report.to_json()
    # Documents begun with an earlier version do not say it.
    del data["networks"][0]["taken"]
    print_benched(data)
    assert "took" not in capsys.readouterr().out
