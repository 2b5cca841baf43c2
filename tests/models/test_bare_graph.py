from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.refusals import refused
from tvm_ios.graph.elements import GraphError
from tvm_ios.models.bare_graph import BareGraph, is_bare_graph, load_bare_graph


def load(tmp_path: Path, data: Any) -> BareGraph:
    path = tmp_path / "network.json"
    path.write_text(data if isinstance(data, str) else json.dumps(data))
    return load_bare_graph(path)


def test_reads_blocks_with_and_without_kinds(tmp_path: Path) -> None:
    graph = load(
        tmp_path,
        {
            "name": "two",
            "blocks": [
                {"operators": 3, "kinds": ["a", "b", "c"], "edges": [[0, 2], [1, 2], [0, 2]]},
                {"operators": 1, "edges": []},
            ],
        },
    )
    assert graph.name == "two"
    assert [block.predecessors for block in graph.blocks] == [(0, 0, 0b11), (0,)]
    assert [block.kinds for block in graph.blocks] == [("a", "b", "c"), ()]


def test_any_numbering_becomes_a_topological_one(tmp_path: Path) -> None:
    block = {"operators": 3, "kinds": ["last", "middle", "first"], "edges": [[2, 1], [1, 0]]}
    graph = load(tmp_path, {"blocks": [block]})
    assert graph.blocks[0].predecessors == (0, 0b1, 0b10)
    assert graph.blocks[0].kinds == ("first", "middle", "last")


@pytest.mark.parametrize(
    ("block", "named"),
    [
        ({"operators": 2, "edges": [[0, 1], [1, 0]]}, "cycle"),
        ({"operators": 1, "edges": [[0, 0]]}, "cycle"),
        ({"operators": 2, "edges": [[0, 2]]}, "0 to 1"),
        ({"operators": 2, "edges": [[-1, 0]]}, "0 to 1"),
        ({"operators": 2, "edges": [[0]]}, "pair"),
        ({"operators": 2, "edges": ["01"]}, "pair"),
        ({"operators": 2, "edges": [[0, "b"]]}, "0 to 1"),
        ({"operators": "two", "edges": []}, "'two'"),
        ({"operators": 2, "kinds": ["a"], "edges": []}, "1 kinds"),
        ({"operators": 2}, '"edges"'),
        ({"edges": []}, '"operators"'),
        (7, '"operators"'),
    ],
)
def test_faults_name_the_block(tmp_path: Path, block: Any, named: str) -> None:
    with refused(GraphError, "block 1", named):
        load(tmp_path, {"blocks": [{"operators": 1, "edges": []}, block]})


@pytest.mark.parametrize("text", ["{", "[]", "7", '{"format": "tvm-ios graph"}'])
def test_other_files_are_refused(tmp_path: Path, text: str) -> None:
    with refused(GraphError, "network.json"):
        load(tmp_path, text)


def test_a_missing_file_is_refused(tmp_path: Path) -> None:
    with refused(GraphError, "none.json"):
        load_bare_graph(tmp_path / "none.json")


def test_an_operator_graph_is_not_a_bare_one() -> None:
    assert not is_bare_graph({"format": "tvm-ios graph", "operators": []})
    assert is_bare_graph({"blocks": []})
