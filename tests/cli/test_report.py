"""``report``: a page is whole, small, true, and needs nothing from elsewhere."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest

from runtime_ext.execution.executable import Executable, load
from tests.cli.command_line import tvm_ios
from tests.small_executable import save_small_executable
from tvm_ios.api import load_units
from tvm_ios.costs.named import costs_named
from tvm_ios.policies.policy import Problem
from tvm_ios.report.page import render
from tvm_ios.search import search


class Page(HTMLParser):
    """What a page asks for from elsewhere, and the data that it holds."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.elsewhere: list[str] = []
        self.identifiers: list[str] = []
        self._in_data = False
        self._data = ""
        self.feed(text)

    @property
    def executables(self) -> list[dict[str, Any]]:
        return json.loads(self._data)["executables"]

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        attributes = dict(attrs)
        self.elsewhere += [
            f"{tag} {name}"
            for name in attributes
            if name in ("src", "href", "action", "srcset")
            and not (attributes[name] or "").startswith("#")
        ]
        self.identifiers += [value for name, value in attrs if name == "id" and value]
        self._in_data = attributes.get("id") == "data"

    def handle_endtag(self, tag: str) -> None:
        self._in_data = False

    def handle_data(self, data: str) -> None:
        if self._in_data:
            self._data += data


@pytest.fixture(scope="module")
def executable(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return save_small_executable(tmp_path_factory.mktemp("report") / "small")


@pytest.fixture(scope="module")
def page(executable: Path) -> Path:
    path = executable.parent / "page.html"
    said = tvm_ios("report", executable, "-o", path, "--repeat", 3, "--json").json
    assert said == {"page": str(path), "bytes": path.stat().st_size}
    return path


def test_a_page_needs_nothing_from_elsewhere(page: Path) -> None:
    text = page.read_text()
    shown = Page(text)
    assert shown.elsewhere == []
    assert len(set(shown.identifiers)) == len(shown.identifiers)
    assert "sourceMappingURL" not in text
    # The libraries could fetch: what is our own does not ask them to.
    own = text[: text.index("<script>")] + text[text.rindex("<script>") :]
    for call in ("fetch(", "XMLHttpRequest", "d3.json", "d3.csv", "import(", "url(http", "@import"):
        assert call not in own, call
    assert page.stat().st_size < 600_000


def test_a_page_has_every_unit_launch_and_block(page: Path, executable: Path) -> None:
    loaded = load(executable)
    assert isinstance(loaded, Executable)
    program = loaded.program
    (shown,) = Page(page.read_text()).executables
    assert [unit["name"] for unit in shown["units"]] == list(program.units)
    merged, *others = shown["units"]
    assert merged["strategy"] == "merge"
    assert merged["forms"] == ["contraction"]
    assert [unit["stage"] for unit in others] == [1, 2]
    assert [0, 1] in shown["edges"]
    for unit in shown["units"]:
        assert unit["ms"] > 0
        assert unit["lane_ms"] >= unit["ms"] * 0.999
        assert unit["bytes"] > 0
        assert unit["kernels"]
    assert merged["gflops"] > 0
    before, run = shown["runs"]
    assert "one unit after another" in before["title"]
    assert {span[0] for span in before["spans"]} == {0, 1, 2}
    for each in (before, run):
        assert each["rows"] == 2
        assert max(span[4] for span in each["spans"]) == pytest.approx(each["ms"])
        assert each["arena"][-1][1] == 0
        for source, target, waited in each["waits"]:
            assert each["spans"][source][1] != each["spans"][target][1]
            assert waited >= 0
    memory = shown["memory"]
    assert memory["least_bytes"] <= memory["arena_bytes"] == loaded.plan.nbytes
    assert sorted(unit for block in shown["blocks"] for unit in block["units"]) == [0, 1, 2]
    for block in (*shown["blocks"], shown["total"]):
        assert block["bound"] in block["bounds_ms"]
        assert block["advice"]
    assert shown["policies"][0]["policy"] == "sequential"
    assert shown["policies"][0]["ms"] == 2.0


def test_two_executables_stand_side_by_side(executable: Path, tmp_path: Path) -> None:
    loaded = load(executable)
    assert isinstance(loaded, Executable)
    replace(loaded, notes={"model": "another"}).save(tmp_path / "other.tar")
    path = tmp_path / "both.html"
    tvm_ios("report", executable, "--compare", tmp_path / "other.tar", "-o", path, "--repeat", 1)
    first, second = Page(path.read_text()).executables
    assert (first["name"], second["name"]) == ("small", "other.tar")
    assert [unit["name"] for unit in first["units"]] == [unit["name"] for unit in second["units"]]


def test_no_name_ends_the_element_that_it_stands_in(page: Path) -> None:
    (shown,) = Page(page.read_text()).executables
    name = "</script><script>alert(1)</script><!--\u2028"
    shown["units"][0]["name"] = name
    text = render([shown], name)
    assert "<script>alert" not in text
    assert Page(text).executables[0]["units"][0]["name"] == name


@pytest.fixture
def bundle(tmp_path: Path) -> Path:
    """What a run of a bundle leaves beside the units, for a described device."""
    graph, costs = load_units("inception_block"), costs_named("v100")
    folder = tmp_path / "block.bundle"
    (folder / "results").mkdir(parents=True)
    (folder / "bundle.json").write_text("{}")
    (folder / "units.json").write_text(json.dumps({"graph": graph.to_json()}))
    rows = []
    for policy in ("sequential", "ios-both"):
        found = search(Problem.of(graph, 40), policy, costs).schedule
        latencies = [costs.stages.stage_latency(graph, s) for s in found.stages]
        found = replace(found, unit_latencies={0: (2e-3, 1e-3)}).with_latencies(latencies)
        found.save(folder / "results" / f"schedule-{policy}.json", graph)
        rows.append({"policy": policy, "latency_ms": found.latency * 1e3, "ratio": 1.0})
    results = {
        "model": "inception_block",
        "device": "a board",
        "lanes": 2,
        "target": "llvm",
        "policies": rows,
        "kept": "ios-both",
        "confirmed": {"sequential": {"median": 0.9, "low": 0.8, "high": 0.95, "pairs": 20}},
    }
    (folder / "results" / "results.json").write_text(json.dumps(results))
    return folder


def test_what_a_bundle_brought_back(bundle: Path, tmp_path: Path) -> None:
    path = tmp_path / "bundle.html"
    outcome = tvm_ios("report", bundle, "-o", path)
    assert outcome.code == 0, outcome.stderr
    (shown,) = Page(path.read_text()).executables
    graph = load_units("inception_block")
    assert [unit["name"] for unit in shown["units"]] == [op.name for op in graph.operators]
    before, run = shown["runs"]
    assert {span[0] for span in run["spans"]} == set(range(len(graph)))
    assert run["ms"] < before["ms"]
    assert shown["units"][0]["ms"] == 1.0
    assert shown["units"][1]["ms"] is None
    assert shown["confirmed"]["sequential"]["pairs"] == 20
    assert "were not" in shown["basis"]


@pytest.mark.parametrize("damage", ["results.json", "schedule-ios-both.json"])
def test_a_bundle_whose_results_are_not_whole(damage: str, bundle: Path, tmp_path: Path) -> None:
    (bundle / "results" / damage).write_text("{}")
    tvm_ios("report", bundle, "-o", tmp_path / "page.html").refuses()
    (bundle / "results" / "results.json").unlink()
    tvm_ios("report", bundle, "-o", tmp_path / "page.html").refuses("run.py")


def test_what_cannot_be_shown(executable: Path, tmp_path: Path) -> None:
    tvm_ios("report", executable, "-o", tmp_path / "page.pdf").refuses(".html")
    tvm_ios("report", tmp_path / "nothing", "-o", tmp_path / "p.html").refuses(tmp_path / "nothing")
    tvm_ios("report", "squeezenet", "-o", tmp_path / "p.html").refuses("optimize squeezenet")
    below_a_file = executable / "program.json" / "page.html"
    tvm_ios("report", executable, "-o", below_a_file).refuses("program.json")
    assert not list(tmp_path.iterdir())


def test_the_libraries_are_as_they_were_released() -> None:
    from tvm_ios.report import page as module

    folder = Path(module.__file__).parent / "vendor"
    assert {p.suffix for p in folder.iterdir()} == {".js", ".LICENSE", ""}
    text = render([], "empty")
    for words in ("Mike Bostock", "Chris Pettitt"):
        assert words in text
    assert re.search(r"d3js\.org v7", text)
