"""Waits beside barriers on random modules of NAS-Bench (section 5.2.5)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from statistics import fmean
from typing import Any

from benchmarks.papers.rammer.modules import STACKS, cell_graph
from benchmarks.papers.rammer.simulated import Simulated
from benchmarks.papers.row import How, Row
from benchmarks.papers.steps import Steps
from tvm_ios.devices.device import load_device
from tvm_ios.graph.op_graph import OpGraph
from tvm_ios.schedule.waves import waves
from tvm_ios.zoo.cells.nasbench import random_cells

_COUNT, _SEED, _PART = 5_000, 0, 500
_SAMPLE = (
    "other random modules, by turns in the three stacks of the published networks, on a described "
    "device"
)
_IRREGULAR = (
    "irregular is a module with unlike convolutions or poolings in a wave; what else the authors "
    "looked at, they do not say"
)


def modules(published: Mapping[str, Any], steps: Steps) -> Iterator[Row]:
    """Rammer over its baseline, and waits over barriers (figure 18)."""
    parts = [steps.once(simulate_modules, first, _PART) for first in range(0, _COUNT, _PART)]
    cells = [cell for part in parts for cell in part]
    speed_ups = [cell["base"] / cell["waits"] for cell in cells]
    irregular = [cell["barriers"] / cell["waits"] for cell in cells if cell["irregular"]]
    for label, ratios, note in (
        ("Rammer over RammerBase", speed_ups, _SAMPLE),
        ("waits over barriers, irregular modules", irregular, _IRREGULAR),
    ):
        for name, value in (("average", fmean(ratios)), ("largest", max(ratios))):
            yield Row(
                f"{label}, {name}",
                published[label][name],
                value,
                "x",
                How.SIMULATED,
                "v100",
                note=note,
                neutral=1.0,
            )
    name = "irregular modules, %"
    part = 100 * len(irregular) / len(cells)
    yield Row(name, published[name], part, "%", How.COUNTED, note=_IRREGULAR)


def simulate_modules(first: int, count: int) -> list[dict[str, float]]:
    """Seconds of some of the modules on a V100, and whether each is irregular."""
    device = load_device("v100")
    cells: list[dict[str, float]] = []
    for number, cell in enumerate(random_cells(first + count, _SEED)[first:], first):
        graph = cell_graph(cell, *STACKS[number % len(STACKS)])
        variants = Simulated(graph, device)
        cells.append(
            {
                "base": variants.base_seconds(variants.fastest),
                "waits": variants.seconds(variants.selected),
                "barriers": variants.seconds(variants.selected, barriers=True),
                "irregular": is_irregular(graph),
            }
        )
    return cells


def is_irregular(graph: OpGraph) -> bool:
    """Whether a wave has unlike convolutions or poolings: of other kinds, windows or shapes.

    Sums, slices and concatenations are how a module is wired, and not its operators.
    """
    for wave in waves(graph.predecessors, range(len(graph))):
        operators = (graph.operators[unit] for unit in wave)
        if len({(op.kind, op.attrs["kernel"], op.flops) for op in operators if op.attrs}) > 1:
            return True
    return False
