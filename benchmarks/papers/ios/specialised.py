"""Schedules of Inception V3 under other conditions than they were searched for."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from benchmarks.papers.ios.latencies import FITTED, V100, described_search
from benchmarks.papers.row import How, Row
from benchmarks.papers.steps import Steps
from tvm_ios.graph.op_graph import OpGraph
from tvm_ios.schedule.stage import Stage, Strategy
from tvm_ios.search import Search
from tvm_ios.sweep.perform import crossed

_NETWORK, _POLICY = "inception_v3", "ios-both"
_BATCHES, _DEVICES = (1, 32, 128), ("K80", "V100")

#: The schedules of figure 4.7 for batches of 1 and 32, by the units of the last block; what joins
#: them is a stage of its own, in the authors' schedules too. conv_2 and conv_6 are windows of 1x3,
#: conv_3 and conv_7 of 3x1.
LAST_BLOCK = {
    1: "conv | conv_1 | conv_4 conv_5 | avg_pool conv_8; conv_2 | conv_3 | conv_6 | conv_7",
    32: "avg_pool; conv | conv_1 conv_2 | conv_4 | conv_8; conv_3 | conv_5; conv_6 + conv_7",
}

_LITTLE = (
    "schedules are our own, of the described device, which contends for arithmetic and bandwidth "
    "but has no caches: it sets schedules less far apart"
)
_STAGES = (
    "of our own search; what joins the block is left out, as in the figure. The described device "
    "has no contention for caches, for which the authors' schedule has more stages in batches"
)
_WINDOWS = (
    "of the two published schedules; merged, the windows of 1x3 and 3x1 become 3x3 and compute "
    "three times as much, and the description gives each of them the same part of the peak"
)


def specialised(published: Mapping[str, Any], steps: Steps) -> Iterator[Row]:
    """Milliseconds with the schedule for each batch and device, on each (table 4.2)."""
    found = {
        "batch": steps.once(across_batches, _NETWORK, _BATCHES),
        "device": steps.once(across_devices, _NETWORK, _DEVICES),
    }
    for condition, measured in published.items():
        executed = condition.removeprefix("executed on ").removeprefix("batch ")
        ours = found["batch" if executed.isdigit() else "device"][executed]
        for label, value in measured.items():
            yield Row(
                f"{condition}, {label}",
                value,
                ours[label.split()[-1]],
                "ms",
                How.SIMULATED,
                executed.lower() if executed in _DEVICES else V100,
                command="tvm-ios sweep examples/specialisation.toml -o results/",
                note=FITTED if executed != "K80" else "the K80's description is fitted to 13.87 ms",
            )
        (right,) = (label for label in measured if label.endswith(f" {executed}"))
        for label in measured:
            if label == right:
                continue
            yield Row(
                f"{condition}, {label} is slower by",
                (measured[label] / measured[right] - 1) * 100,
                (ours[label.split()[-1]] / ours[executed] - 1) * 100,
                "%",
                How.SIMULATED,
                executed.lower() if executed in _DEVICES else V100,
                note=_LITTLE,
                neutral=0.0,
            )


def last_block(published: Mapping[str, Any], steps: Steps) -> Iterator[Row]:
    """The last block's schedules for batches of 1 and 32 (figure 4.7)."""
    found = steps.once(last_block_seconds)
    for label, value in published.items():
        if label.startswith("stages"):
            batch = label.rpartition(" ")[2]
            yield Row(
                label,
                value,
                found["stages"][batch],
                "",
                How.SIMULATED,
                V100,
                note=_STAGES,
            )
            continue
        batch = label.partition(":")[0].removeprefix("batch ")
        other = "32" if batch == "1" else "1"
        seconds = found["published"][batch]
        yield Row(
            label,
            value,
            (seconds[other] / seconds[batch] - 1) * 100,
            "%",
            How.SIMULATED,
            V100,
            note=_WINDOWS,
            neutral=0.0,
        )


def across_batches(network: str, batches: tuple[int, ...]) -> dict[str, dict[str, float]]:
    """Milliseconds on a V100 by batch, and by the batch that the schedule was searched for."""
    return _crossed({str(batch): described_search(network, batch, V100) for batch in batches})


def across_devices(network: str, devices: tuple[str, ...]) -> dict[str, dict[str, float]]:
    """Milliseconds of one image by device, and by the device that the schedule is for."""
    return _crossed({device: described_search(network, 1, device.lower()) for device in devices})


def _crossed(searches: Mapping[str, Search]) -> dict[str, dict[str, float]]:
    found = {
        name: search.find(_POLICY, priced=True).schedule.to_json(search.problem.units)
        for name, search in searches.items()
    }
    return {
        here: {made_for: crossed(data, search).latency * 1e3 for made_for, data in found.items()}
        for here, search in searches.items()
    }


def last_block_seconds() -> dict[str, Any]:
    """By batch the seconds of the published schedules, and how many stages ours has."""
    published: dict[str, dict[str, float]] = {}
    ours: dict[str, int] = {}
    for batch in LAST_BLOCK:
        search = described_search(_NETWORK, batch, V100)
        units = search.problem.units
        model = search.costs.stages
        assert model is not None
        published[str(batch)] = {
            str(made_for): sum(model.stage_latency(units, s) for s in stages_of(text, units))
            for made_for, text in LAST_BLOCK.items()
        }
        block = sum(1 << u for stage in stages_of(LAST_BLOCK[1], units) for u in stage.units)
        stages = search.find(_POLICY, priced=True).schedule.stages
        ours[str(batch)] = sum(1 for stage in stages if stage.mask & block)
    return {"published": published, "stages": ours}


def stages_of(text: str, units: OpGraph) -> list[Stage]:
    """Stages of the last block: ``;`` between them, ``|`` between groups, ``+`` merges."""
    number = {op.name: unit for unit, op in enumerate(units.operators)}
    stages: list[Stage] = []
    for stage in text.split(";"):
        strategy = Strategy.MERGE if "+" in stage else Strategy.CONCURRENT
        groups = stage.split("+" if strategy is Strategy.MERGE else "|")
        named = (tuple(number[f"mixed_7c/{name}"] for name in group.split()) for group in groups)
        stages.append(Stage(strategy, tuple(named)))
    return stages
