"""Latencies of schedules on described devices, beside those that were measured."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from typing import Any

from benchmarks.papers.ios.networks import ZOO
from benchmarks.papers.row import How, Row
from benchmarks.papers.steps import Steps
from tvm_ios.costs.named import described_costs
from tvm_ios.devices.device import load_device
from tvm_ios.devices.engine import IOS, load_engine
from tvm_ios.graph.op_graph import OpGraph
from tvm_ios.ios.ending_space import Pruning
from tvm_ios.models.load import load_graph
from tvm_ios.models.source import ModelSource
from tvm_ios.policies.policy import Limits, Problem
from tvm_ios.search import Search

V100, RTX2080TI = "v100", "rtx2080ti"
POLICIES = ("sequential", "greedy", "ios-merge", "ios-parallel", "ios-both")
#: Units a block of the searches.
_MAX_BLOCK = 40

#: Why simulated milliseconds are not those that were measured.
FITTED = (
    "the description of the V100 was fitted to SqueezeNet and Inception V3 with one image, to no "
    "other network and batch"
)
SEPARABLE = (
    "cuDNN 7's depthwise convolutions are slower than memory, which the description does not "
    "know: networks of separable convolutions come out a quarter too fast"
)


def schedules(published: Mapping[str, Any], steps: Steps) -> Iterator[Row]:
    """Throughput of five schedules to the best one, and sequential milliseconds (figure 4.1)."""
    for network, measured in published.items():
        simulated = steps.once(latencies, ZOO[network], 1, V100, POLICIES)
        for policy, milliseconds in measured.items():
            yield Row(
                f"{network}, {policy}",
                min(measured.values()) / milliseconds,
                min(simulated.values()) / simulated[policy],
                "of the best one's throughput",
                How.SIMULATED,
                V100,
                command=f"tvm-ios schedule {ZOO[network]} --policy {policy} --cost v100",
                note=FITTED,
            )
        yield Row(
            f"{network}, sequential",
            measured["sequential"],
            simulated["sequential"],
            "ms",
            How.SIMULATED,
            V100,
            note=FITTED if network in ("Inception V3", "SqueezeNet") else SEPARABLE,
        )


def on_another_gpu(published: Mapping[str, Any], steps: Steps) -> Iterator[Row]:
    """The smallest and the largest speed-up of IOS on an RTX 2080Ti (figure 4.4)."""
    speed_ups: dict[str, float] = {}
    for name, network in ZOO.items():
        simulated = steps.once(latencies, network, 1, RTX2080TI, ("sequential", "ios-both"))
        speed_ups[name] = simulated["sequential"] / simulated["ios-both"]
    ours = {"smallest": min(speed_ups.values()), "largest": max(speed_ups.values())}
    stated = [(label, value, ours[label.split()[0]]) for label, value in published.items()]
    drawn = [(f"{name}, ios-both", None, speed_up) for name, speed_up in speed_ups.items()]
    for label, value, speed_up in (*stated, *drawn):
        yield Row(
            label,
            value,
            speed_up,
            "x",
            How.SIMULATED,
            RTX2080TI,
            note="the description's fitted figures are those of the V100; of single networks the "
            "text states no value",
            neutral=1.0,
        )


def pruning(published: Mapping[str, Any], steps: Steps) -> Iterator[Row]:
    """What pruning costs in latency, and what it saves of the search (figure 4.6)."""
    for network, measured in published["latency, ms"].items():
        found = steps.once(pruned, ZOO[network], V100, sorted(measured))
        note = FITTED if network == "Inception V3" else SEPARABLE
        for r_and_s, value in measured.items():
            command = f"tvm-ios schedule {ZOO[network]} --cost v100 {_options(r_and_s)}"
            yield Row(
                f"{network}, {r_and_s}, latency",
                value,
                found[r_and_s]["ms"],
                "ms",
                How.SIMULATED,
                V100,
                command=command,
                note=note,
            )
            largest = max(entry["transitions"] for entry in found.values())
            seconds = published["search, s"][network]
            yield Row(
                f"{network}, {r_and_s}, work of the search",
                seconds[r_and_s] / max(seconds.values()),
                found[r_and_s]["transitions"] / largest,
                "of the largest search's",
                How.COUNTED,
                command=command,
                note="theirs are seconds, most of them for measuring stages; ours are transitions: "
                f"{int(largest):,} of {network} without more pruning",
                comparable=False,
            )
    for network, value in published["speed-up over sequential, r=1, s=8"].items():
        sequential = steps.once(latencies, ZOO[network], 1, V100, POLICIES)["sequential"]
        found = steps.once(pruned, ZOO[network], V100, sorted(published["latency, ms"][network]))
        yield Row(
            f"{network}, speed-up over sequential, r=1, s=8",
            value,
            sequential / found["r=1, s=8"]["ms"],
            "x",
            How.SIMULATED,
            V100,
            neutral=1.0,
        )


def blocks(published: Mapping[str, Any], steps: Steps) -> Iterator[Row]:
    """Speed-ups of single blocks of Inception V3, and of all of it (figure 4.8)."""
    found = steps.once(block_speed_ups, "inception_v3", V100)
    parallel = [speed_up for speed_up in found["blocks"] if speed_up > 1]
    ours = {"largest of a block": max(found["blocks"]), "end to end": found["whole"]}
    for label, value in published.items():
        yield Row(label, value, ours[label], "x", How.SIMULATED, V100, note=FITTED, neutral=1.0)
    for number, speed_up in enumerate(parallel, start=1):
        yield Row(
            f"block {number} of those that gain",
            None,
            speed_up,
            "x",
            How.SIMULATED,
            V100,
            note="drawn in the figure, without a value",
        )


def throughput(published: Mapping[str, Any], steps: Steps) -> Iterator[Row]:
    """Images a second of Inception V3 by batch (figure 4.9)."""
    for runner, measured in published.items():
        for label, milliseconds in measured.items():
            batch = int(label.removeprefix("batch "))
            images = batch / milliseconds * 1e3
            if runner not in POLICIES:
                yield Row(
                    f"{runner}, {label}",
                    images,
                    None,
                    "images/s",
                    How.NOT_POSSIBLE,
                    note="it needs a V100",
                )
                continue
            simulated = steps.once(
                latencies, "inception_v3", batch, V100, ("sequential", "ios-both")
            )
            yield Row(
                f"{runner}, {label}",
                images,
                batch / simulated[runner] * 1e3,
                "images/s",
                How.SIMULATED,
                V100,
                command=f"tvm-ios schedule inception_v3 --batch {batch} --policy {runner} "
                "--cost v100",
                note=FITTED,
            )


def latencies(network: str, batch: int, device: str, policies: tuple[str, ...]) -> dict[str, float]:
    """Milliseconds of a zoo network on a described device, by policy."""
    search = described_search(network, batch, device)
    return {policy: search.find(policy, priced=True).schedule.latency * 1e3 for policy in policies}


def pruned(network: str, device: str, prunings: tuple[str, ...]) -> dict[str, dict[str, float]]:
    """For each ``r=.., s=..`` the milliseconds, transitions and seconds of a search by ios-both."""
    units = load_graph(network)
    found: dict[str, dict[str, float]] = {}
    for r_and_s in prunings:
        search = _search(units, device, Pruning(*_r_and_s(r_and_s)))
        began = time.perf_counter()
        result = search.find("ios-both", priced=True)
        assert result.statistics is not None
        found[r_and_s] = {
            "ms": result.schedule.latency * 1e3,
            "transitions": result.statistics.transitions or 0,
            "seconds": time.perf_counter() - began,
        }
    return found


def block_speed_ups(network: str, device: str) -> dict[str, Any]:
    """Of each block the sequential seconds over those of ios-both, and of the whole network."""
    search = described_search(network, 1, device)
    alone, ours = (search.find(p, priced=True).schedule for p in ("sequential", "ios-both"))
    speed_ups: list[float] = []
    for block in search.problem.blocks:
        seconds = [
            sum(
                latency
                for stage, latency in zip(found.stages, found.latencies, strict=True)
                if stage.mask & block
            )
            for found in (alone, ours)
        ]
        speed_ups.append(seconds[0] / seconds[1])
    return {"blocks": speed_ups, "whole": alone.latency / ours.latency}


def described_search(network: str, batch: int, device: str) -> Search:
    """A search over a zoo network, by a device's description."""
    return _search(load_graph(ModelSource(network, batch=batch)), device, Pruning(3, 8))


def _search(units: OpGraph, device: str, pruned_to: Pruning) -> Search:
    costs = described_costs(load_device(device), load_engine(IOS))
    return Search(Problem.of(units, _MAX_BLOCK), costs, Limits(pruning=pruned_to))


def _r_and_s(text: str) -> tuple[int, int]:
    r, s = (int(part.split("=")[1]) for part in text.split(","))
    return r, s


def _options(text: str) -> str:
    return "-r {} -s {}".format(*_r_and_s(text))
