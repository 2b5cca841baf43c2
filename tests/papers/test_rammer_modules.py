"""Random modules of NAS-Bench, and what Rammer and its baseline take for them."""

from __future__ import annotations

from dataclasses import replace

import pytest

from benchmarks.papers.rammer.fine_grained import is_irregular, simulate_modules
from benchmarks.papers.rammer.modules import cell_graph
from benchmarks.papers.rammer.simulated import Simulated
from tests.random_dags import graph_of
from tvm_ios.costs.kernel_estimate import KernelEstimate
from tvm_ios.devices.device import load_device
from tvm_ios.devices.engine import IOS, load_engine
from tvm_ios.graph.op_graph import OpGraph, bits
from tvm_ios.graph.units import form_units
from tvm_ios.onnx.graph import graph_from_onnx
from tvm_ios.onnx.simplify import simplify
from tvm_ios.zoo.cells.nasbench import Cell, build_cell, random_cells


def units_of(graph: OpGraph) -> list[tuple[object, ...]]:
    """What units compute and read, by their names' sake in no order."""
    return sorted(
        (
            op.kind,
            op.flops,
            str(op.attrs.get("kernel")),
            [graph.tensors[t].shape for t in (*op.inputs[:1], *op.outputs)],
            sorted(graph.operators[p].kind for p in bits(before)),
        )
        for op, before in zip(graph.operators, graph.predecessors, strict=True)
    )


def test_graphs_are_those_of_the_zoos_cells() -> None:
    for cell in random_cells(12, seed=4):
        built = form_units(graph_from_onnx(simplify(build_cell(cell, 32, 8))))
        assert units_of(cell_graph(cell, 32, 8)) == units_of(built)


def test_unlike_operators_in_a_wave_are_irregular() -> None:
    edges = ((0, 1), (0, 2), (1, 3), (2, 3))
    assert not is_irregular(cell_graph(Cell(("conv3x3", "conv3x3"), edges), 32, 8))
    assert is_irregular(cell_graph(Cell(("conv3x3", "maxpool3x3"), edges), 32, 8))


def equal_kernels(graph: OpGraph, blocks: int) -> Simulated:
    """Units of a second each, by blocks that fill a processor each."""
    device = replace(load_device("v100"), wait_overhead=0.125)
    engine = replace(load_engine(IOS), contention_overhead=0.0, launch_overhead=0.25)
    simulated = Simulated(graph, device, engine)
    kernel = KernelEstimate(blocks, 1.0, 1.0, 0, 0.0)
    simulated.__dict__["fastest"] = [(kernel,)] * len(graph)
    return simulated


def test_a_launch_each_and_one_for_all() -> None:
    # Two chains of two, each unit on half of the processors.
    simulated = equal_kernels(graph_of([0, 0, 0b1, 0b10]), 40)
    kernels = simulated.fastest
    assert simulated.base_seconds(kernels) == 4 * 1.25
    assert simulated.base_launch_seconds(kernels) == 1.0
    assert simulated.seconds(kernels) == pytest.approx(0.25 + 2 + 0.125)
    assert simulated.base_utilisation(kernels) == pytest.approx(0.5)
    assert simulated.utilisation(kernels) == pytest.approx(2 / 2.125)


def test_waits_begin_before_barriers_where_a_wave_is_uneven() -> None:
    # Unit 1 takes three times as long as unit 0, after which unit 2 could run.
    simulated = equal_kernels(graph_of([0, 0, 0b1]), 20)
    short, long = simulated.fastest[0][0], KernelEstimate(20, 3.0, 1.0, 0, 0.0)
    kernels = [(short,), (long,), (short,)]
    assert simulated.seconds(kernels) == pytest.approx(0.25 + 3)
    assert simulated.seconds(kernels, barriers=True) == pytest.approx(0.25 + 3 + 0.125 + 1)


def test_a_sample_gains_by_one_launch_and_by_waits() -> None:
    cells = simulate_modules(0, 25)
    assert cells[10:] == simulate_modules(10, 15)
    assert all(cell["base"] >= cell["waits"] * (1 - 1e-9) for cell in cells)
    assert max(cell["barriers"] / cell["waits"] for cell in cells) > 1.02
    assert 0 < sum(cell["irregular"] for cell in cells) < 25
