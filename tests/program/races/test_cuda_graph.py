"""Files of ``cudaGraphDebugDotPrint``, in the forms that CUDA 12 writes."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from tests.refusals import refused
from tvm_ios.program.races.cuda_graph import read_cuda_graph
from tvm_ios.program.races.plan import PlanError, Race, find_races

VERBOSE = r"""digraph dot {
subgraph cluster_1 {
label="graph_1" graph[style="dashed"];
"graph_1_node_0"[style="solid" style="solid" shape="record" label="{MEMSET
| {{ID | node handle | dptr | width} | {0 (topoId: 3) | 0x56 | 0x7F00 | 64}}}"];

"graph_1_node_1"[style="bold" shape="record" label="{KERNEL
| {ID | 1 (topoId: 2) | left\<\<\<\{16,10,2\},128,0\>\>\>}
| {{node handle | func handle} | {0x00005613 | 0x00005614}}
| {accessPolicyWindow | {base_ptr | num_bytes | hitRatio} | {0x0 | 0 | 0.000000}}
| {cooperative | 0}
| {priority | 0}
}"];

"graph_1_node_2"[style="bold" shape="record" label="{KERNEL
| {ID | 2 (topoId: 1) | right\<\<\<1,128,0\>\>\>}
| {{node handle | func handle} | {0x00005615 | 0x00005616}}
}"];

"graph_1_node_3"[style="solid" shape="record" label="{
MEMCPY
| {{ID | node handle} | {3 (topoId: 0) | 0x00005617}}
| {kind | DtoD (DEVICE to DEVICE)}
}"];

"graph_1_node_0" -> "graph_1_node_1" [headlabel=0];
"graph_1_node_0" -> "graph_1_node_2" [headlabel=0];
"graph_1_node_1" -> "graph_1_node_3" [headlabel=0];
"graph_1_node_2" -> "graph_1_node_3" [headlabel=0];
}
}
"""
PLAIN = """digraph dot {
subgraph cluster_1 {
label="graph_1" graph[style="dashed"];
"graph_1_node_0"[style="solid" shape="rectangle" label="0
MEMSET
(0x7f00,0,0,1,64,1)
"];
"graph_1_node_1"[style="bold" shape="octagon" label="1
left
"];
"graph_1_node_2"[style="bold" shape="octagon" label="2
right
"];
"graph_1_node_3"[style="solid" shape="rectangle" label="3
MEMCPY
(DtoD,64)
"];
"graph_1_node_0" -> "graph_1_node_1";
"graph_1_node_0" -> "graph_1_node_2";
"graph_1_node_1" -> "graph_1_node_3";
"graph_1_node_2" -> "graph_1_node_3";
}
}
"""
NODES: dict[str, Any] = {
    "graph_1_node_0": {"writes": ["sum"]},
    "graph_1_node_1": {"reads": ["x", "sum"], "writes": [{"buffer": "y", "begin": 0, "bytes": 32}]},
    "graph_1_node_2": {"reads": ["x", "sum"], "writes": [{"buffer": "y", "begin": 32}]},
    "graph_1_node_3": {"reads": ["y"], "writes": ["z"]},
}


def races_of(folder: Path, dot: str, nodes: Mapping[str, Any] = NODES) -> tuple[Race, ...]:
    graph, buffers = folder / "graph.dot", folder / "buffers.json"
    graph.write_text(dot)
    document = {"format": "tvm-ios plan", "version": 1, "nodes": nodes}
    sizes = dict.fromkeys(("x", "y", "z", "sum"), 64)
    buffers.write_text(json.dumps({**document, "buffers": sizes}))
    return find_races(read_cuda_graph(graph, buffers))


@pytest.mark.parametrize("dot", [VERBOSE, PLAIN])
def test_edges_order_nodes(tmp_path: Path, dot: str) -> None:
    assert races_of(tmp_path, dot) == ()
    both = {**NODES, "graph_1_node_2": {"writes": ["y"]}}
    (race,) = races_of(tmp_path, dot, both)
    assert (race.first, race.second) == ("graph_1_node_1 (left)", "graph_1_node_2 (right)")
    lines = [line for line in dot.splitlines() if not line.startswith('"graph_1_node_2" ->')]
    (race,) = races_of(tmp_path, "\n".join(lines))
    assert race == Race(
        "graph_1_node_2 (right)", "graph_1_node_3 (MEMCPY)", ("y", "y"), (True, False)
    )


def test_what_is_not_known_is_refused(tmp_path: Path) -> None:
    without = {node: touched for node, touched in NODES.items() if node != "graph_1_node_1"}
    with refused(PlanError, "'graph_1_node_1'", "left"):
        races_of(tmp_path, VERBOSE, without)
    with refused(PlanError, "'other'"):
        races_of(tmp_path, VERBOSE, {**NODES, "other": {}})
    with refused(PlanError, "no nodes"):
        races_of(tmp_path, "digraph dot {\n}\n")
    with refused(PlanError, "'graph_1_node_9'", "no nodes"):
        races_of(tmp_path, VERBOSE.replace('-> "graph_1_node_3"', '-> "graph_1_node_9"'))
    with refused(PlanError, "'graph_1_node_1'", "port 1"):
        edge = '"graph_1_node_0" -> "graph_1_node_1" [headlabel=0]'
        races_of(tmp_path, VERBOSE.replace(edge, edge.replace("0]", "1]")))
    with refused(PlanError, "'graph_1_node_3'", "child graph"):
        races_of(tmp_path, PLAIN.replace("MEMCPY\n(DtoD,64)", "graph_2"))


def test_nodes_that_only_order_need_no_entry(tmp_path: Path) -> None:
    dot = PLAIN.replace("MEMCPY\n(DtoD,64)", "EMPTY")
    nodes = {node: touched for node, touched in NODES.items() if node != "graph_1_node_3"}
    assert races_of(tmp_path, dot, nodes) == ()
