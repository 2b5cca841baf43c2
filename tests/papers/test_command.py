"""``python -m benchmarks.papers`` as its readers meet it, and its results of this working tree."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from benchmarks.papers.catalogue import all_items, item_named
from benchmarks.papers.row import Agreement
from tests.refusals import require_names

#: The same as another one, an illustration, not possible, and one that is counted at once.
NAMES = (
    "ios-mlsys21/figure-7",
    "rammer-osdi20/figure-6",
    "rammer-osdi20/figure-21",
    "ios-thesis/figure-3.4",
)
RESULT = Path(__file__).parents[2] / "benchmarks" / "results" / "papers.json"


def run(*arguments: object) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "benchmarks.papers", *map(str, arguments)]
    return subprocess.run(
        command, capture_output=True, text=True, env={**os.environ, "COLUMNS": "200"}
    )


@pytest.mark.slow
def test_rows_as_json(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TVM_IOS_CACHE", str(tmp_path / "cache"))
    done = run(*NAMES, "-o", tmp_path / "rows.json")
    assert done.returncode == 0, done.stderr
    for text in ("2.28", "no training graphs", "transitions", "within 10 %", "an illustration"):
        assert text in done.stdout
    document = json.loads((tmp_path / "rows.json").read_text())
    items = {item["name"]: item for item in document["items"]}
    assert tuple(items) == NAMES
    assert items["ios-mlsys21/figure-7"]["same_as"] == "ios-thesis/figure-4.2"
    assert len(items["ios-mlsys21/figure-7"]["rows"]) == 20
    (illustration,) = items["rammer-osdi20/figure-6"]["rows"]
    assert illustration["how"] == "an illustration"
    assert {row["how"] for row in items["rammer-osdi20/figure-21"]["rows"]} == {"not possible"}
    states, transitions = items["ios-thesis/figure-3.4"]["rows"]
    assert (states["ours"], transitions["ours"]) == (6, 12)
    assert set(document["summary"]) == set(Agreement)
    # Illustrations are no values.
    assert sum(document["summary"].values()) == 20 + 2 + 2


def test_a_list_and_a_refusal() -> None:
    assert "graphturbo-osdi23/table-3" in run("graphturbo-osdi23", "--list").stdout
    refused = run("ios-thesis/table-3.2")
    assert refused.returncode == 1
    assert "Traceback" not in refused.stderr
    require_names(refused.stderr.strip(), "ios-thesis/table-3.2", "ios-thesis/table-4.2")


def test_results_are_of_these_texts() -> None:
    items = {item["name"]: item for item in json.loads(RESULT.read_text())["items"]}
    assert list(items) == [item.name for item in all_items()]
    for name, item in items.items():
        assert item["error"] is None, name
        assert item["rows"], name
        described = item_named(item["same_as"] or name)
        # A value may be shown as others, such as milliseconds as images a second.
        assert len(item["rows"]) >= len(described.flat_values()), name
        labels = [(row["label"], row["unit"]) for row in item["rows"]]
        assert len(labels) == len(set(labels)), name
        for row in item["rows"]:
            differs = row["agreement"] in (Agreement.DIRECTION, Agreement.NO)
            unexplained = (differs or row["ours"] is None) and not row["note"]
            assert not unexplained, (name, row["label"])
