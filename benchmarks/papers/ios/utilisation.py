"""How much of a GPU schedules use: arithmetic, and warps."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from benchmarks.papers.ios.latencies import V100, described_search
from benchmarks.papers.row import How, Row
from benchmarks.papers.steps import Steps
from tvm_ios.costs.analytic import AnalyticCost
from tvm_ios.devices.device import WARP, load_device
from tvm_ios.devices.engine import IOS, load_engine
from tvm_ios.devices.occupancy import multiprocessor_of

_NETWORK = "ios_figure_2"
_SCHEDULES = {"sequential": "sequential", "greedy": "greedy", "IOS": "ios-both"}


def four_convolutions(published: Mapping[str, Any], steps: Steps) -> Iterator[Row]:
    """Latency and utilisation of three schedules of figure 1.2's network."""
    found = steps.once(utilisation, V100)
    units = {"latency, ms": "ms", "utilisation, %": "%"}
    for quantity, values in published.items():
        for label, value in values.items():
            yield Row(
                f"{label}, {quantity.partition(',')[0]}",
                value,
                found[_SCHEDULES[label]][quantity],
                units[quantity],
                How.SIMULATED,
                V100,
                command=f"tvm-ios schedule {_NETWORK} --policy {_SCHEDULES[label]} --cost v100",
                note="the description takes cuDNN's convolutions of 3x3 for Winograd's where that "
                "is faster; the utilisation is that of direct ones",
            )


def active_warps(published: Mapping[str, Any], steps: Steps) -> Iterator[Row]:
    """Active warps under IOS's schedule, beside the sequential one (figure 4.3)."""
    found = steps.once(utilisation, V100)
    ours, sequential = (found[policy]["active warps"] for policy in ("ios-both", "sequential"))
    for label, value in published.items():
        yield Row(
            label,
            value,
            (ours / sequential - 1) * 100,
            "%",
            How.SIMULATED,
            V100,
            note="a kernel's warps are active from its first block to its last. Ours gains more "
            "for the description gives IOS's schedule less time than was measured (figure 1.2). "
            "`run.py --warps` of a bundle measures warps on a GPU",
            neutral=0.0,
        )


def utilisation(device: str) -> dict[str, dict[str, float]]:
    """By policy milliseconds, the part of the peak in per cent, and active warps on average."""
    search = described_search(_NETWORK, 1, device)
    described = load_device(device)
    cost, units = AnalyticCost(described, load_engine(IOS)), search.problem.units
    most = multiprocessor_of(described).threads // WARP * described.processors
    flops = sum(op.flops for op in units.operators)
    found: dict[str, dict[str, float]] = {}
    for policy in _SCHEDULES.values():
        stages = search.find(policy, priced=True).schedule.stages
        seconds = float(cost.stage_latencies(units, stages).sum())
        runs = [run for stage in stages for run in cost.kernel_seconds(units, stage)]
        warps = sum(min(most, kernel.blocks * kernel.warps) * run for kernel, run in runs)
        found[policy] = {
            "latency, ms": seconds * 1e3,
            "utilisation, %": flops / seconds / described.peak_flops * 100,
            "active warps": warps / seconds,
        }
    return found
