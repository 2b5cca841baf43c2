"""Cells of NAS-Bench-101: the limits of the space, channels, and what they compute."""

from __future__ import annotations

import networkx
import numpy as np
import onnx
import pytest

from tvm_ios.zoo.cells.nasbench import (
    MAX_EDGES,
    MAX_VERTICES,
    OPERATIONS,
    Cell,
    build_cell,
    random_cells,
    vertex_channels,
)

CELLS = random_cells(60, seed=3)
#: Figure 1 of the paper: the best cell's kind, with an edge from the input to the output.
DIAMOND = Cell(
    ("conv3x3", "maxpool3x3", "conv1x1"), ((0, 1), (0, 2), (0, 4), (1, 3), (2, 3), (2, 4), (3, 4))
)


def test_the_same_seed_gives_the_same_cells():
    assert random_cells(60, seed=3) == CELLS
    assert random_cells(60, seed=4) != CELLS
    assert len(set(CELLS)) == 60


@pytest.mark.parametrize("cell", CELLS, ids=str)
def test_cells_are_of_the_search_space(cell: Cell):
    graph = networkx.DiGraph(cell.edges)
    assert 3 <= len(graph) <= MAX_VERTICES
    assert len(cell.edges) <= MAX_EDGES
    assert set(cell.operations) <= set(OPERATIONS)
    assert set(graph) == set(range(cell.output + 1))
    for vertex in graph:
        assert networkx.has_path(graph, 0, vertex)
        assert networkx.has_path(graph, vertex, cell.output)


@pytest.mark.parametrize("cell", CELLS[:30], ids=str)
def test_channels_share_the_output(cell: Cell):
    widths = vertex_channels(cell, 65)
    leading = [widths[u] for u, v in cell.edges if v == cell.output and u]
    assert sum(leading) == 65
    assert max(leading) - min(leading) <= 1
    for u, v in cell.edges:
        if u and v != cell.output:
            assert widths[u] >= widths[v]


def test_channels_of_a_known_cell():
    assert vertex_channels(DIAMOND, 65) == {1: 32, 2: 33, 3: 32}


@pytest.mark.parametrize("cell", [DIAMOND, *CELLS[:10]], ids=str)
def test_a_cell_is_a_network_that_runs(cell: Cell):
    runtime = pytest.importorskip("onnxruntime")
    model = build_cell(cell, channels=20, size=6)
    onnx.checker.check_model(model, full_check=True)
    session = runtime.InferenceSession(model.SerializeToString())
    data = np.random.default_rng(0).standard_normal((1, 20, 6, 6), np.float32)
    (result,) = session.run(None, {"input": data})
    assert result.shape == (1, 20, 6, 6)
    assert result.std() > 0.1
