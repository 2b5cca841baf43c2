"""Tables 1, 2, 3, 4 and 5 of GraphTurbo: throughput, levels of memory, compilation, a GPU."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from benchmarks.papers.graphturbo.simulated import (
    BATCHES,
    as_published,
    best_batch,
    command,
    on_stcp920,
    tailored_on_a100,
    vendors_row,
)
from benchmarks.papers.row import How, Row
from benchmarks.papers.steps import Steps
from tvm_ios.graphturbo.cluster.placement import Placement

#: Who stands for whom: our variants in the place of the compilers that were measured.
_VARIANTS = {"TVM": "layers", "AStitch": "astitch", "GraphTurbo": "prefetch"}
_ASSUMED = (
    "peaks, rates of buffers and kernel starts of the STCP920 are assumed (docs/accelerators.md)"
)
_WEIGHTS = (
    "simulated instances fetch the weights of their sub-graph again, 170 MB of BERT, which the "
    f"global buffer cannot keep; {_ASSUMED}"
)
_FASTEST = ", placed for the least time"
#: Other assumptions: options of a simulation, and of the command.
_OTHERWISE: Mapping[str, tuple[tuple[str | int, ...], str]] = {
    ", by the paper's placement": ((Placement.PUBLISHED,), " --placement published"),
    ", one fetch of weights for all clusters": (("fastest", 4), ""),
}


def by_batch(published: Mapping[str, Any], steps: Steps) -> Iterator[Row]:
    """BERT-128 by batch and by iterations of a loop on each cluster (table 1)."""
    for compiler, batches in published.items():
        for label, values in batches.items():
            whole, iterations, batch = (int(number) for number in re.findall(r"\d+", label))
            # The two published quantities of a row do not always say the same.
            rate = whole / values["latency, ms"] * 1e3
            same = abs(values["throughput, sentences/s"] / rate - 1) < 0.25
            note = (
                _WEIGHTS if same else f"the published latency is {rate:,.0f} a second; {_WEIGHTS}"
            )
            for quantity, value in values.items():
                if compiler not in _VARIANTS:
                    yield vendors_row(f"{compiler}, {label}, {quantity}", value, "")
                    continue
                of_ours = compiler == "GraphTurbo"
                ways = {"": ((), ""), **(_OTHERWISE if of_ours else {})}
                for suffix, (options, added) in ways.items():
                    simulated = on_stcp920(steps, "BERT-128", batch, *options)[_VARIANTS[compiler]]
                    # Each iteration takes as long, and does as much.
                    ours = (
                        simulated["throughput"]
                        if quantity.startswith("throughput")
                        else simulated["seconds"] * 1e3 * iterations
                    )
                    yield Row(
                        f"{compiler}, {label}, {quantity}{suffix}",
                        None if suffix else value,
                        ours,
                        "",
                        How.SIMULATED,
                        "stcp920",
                        command("BERT-128", batch, added) if of_ours else "",
                        _ASSUMED if suffix else note,
                    )


def models(published: Mapping[str, Any], steps: Steps) -> Iterator[Row]:
    """Batches of a cluster, and the throughput of one layer after another (table 2)."""
    for network, values in published.items():
        theirs, _ = BATCHES[network]
        for quantity, value in values.items():
            label = f"{network}, {quantity}"
            if quantity.startswith("GraphTurbo"):
                note = f"the best of the batches of the table and half of GraphTurbo's; {_ASSUMED}"
                for suffix, placement in (("", Placement.PUBLISHED), (_FASTEST, Placement.FASTEST)):
                    yield Row(
                        f"{label}{suffix}",
                        None if suffix else value,
                        best_batch(steps, network, placement=placement),
                        "",
                        How.SIMULATED,
                        "stcp920",
                        note=note,
                    )
            elif "/s" in quantity:
                throughput = on_stcp920(steps, network, theirs)["layers"]["throughput"]
                note = f"results of layers in memory, kernels of arithmetic at the peak; {_ASSUMED}"
                yield Row(label, value, throughput, "", How.SIMULATED, "stcp920", note=note)
            else:
                note = "taken from the table, not found"
                yield Row(label, value, None, "", How.NOT_POSSIBLE, note=note)


def levels(published: Mapping[str, Any], steps: Steps) -> Iterator[Row]:
    """Tensors in each level of memory, at the batches of table 2 (table 3)."""
    for network, by_level in published.items():
        for level, values in by_level.items():
            for compiler, value in values.items():
                label = f"{network}, {level}, {compiler}"
                if compiler not in _VARIANTS:
                    yield vendors_row(label, value, "tensors")
                    continue
                plain, batch = BATCHES[network]
                if compiler == "TVM":
                    of_layers = on_stcp920(steps, network, plain)["layers"]["tensors"][level]
                    note = "ours counts the results of layers, with the sums after them, once"
                    yield Row(
                        label, value, of_layers, "tensors", How.SIMULATED, "stcp920", note=note
                    )
                    continue
                for suffix, theirs, simulated, option in (
                    ("", value, as_published(steps, network), " --placement published"),
                    (_FASTEST, None, on_stcp920(steps, network, batch), ""),
                ):
                    yield Row(
                        label + suffix,
                        theirs,
                        simulated["prefetch"]["tensors"][level],
                        "tensors",
                        How.SIMULATED,
                        "stcp920",
                        command(network, batch, option),
                        "ours counts the results of layers of every instance; in L1 is what a "
                        "cluster's 512 KiB hold in half precision: whole, or tile by tile between "
                        "layers that are stitched",
                    )


def compilation(published: Mapping[str, Any], steps: Steps) -> Iterator[Row]:
    """Seconds of compilation (table 4); ours are those of planning alone."""
    for network, values in published.items():
        simulated = on_stcp920(steps, network, BATCHES[network][1])
        for compiler, value in values.items():
            yield Row(
                f"{network}, {compiler}",
                value,
                simulated[_VARIANTS[compiler]]["planning_seconds"],
                "s",
                How.MEASURED,
                note="ours is planning and simulation in Python; there is no compiler for the "
                "device here, and theirs generates code with LLVM",
                comparable=False,
            )


def on_a_gpu(published: Mapping[str, Any], steps: Steps) -> Iterator[Row]:
    """ResNet18-Tailor on an A100 (table 5)."""
    variants = {"TVM": "layers", "CUTLASS fusion": "local", "graph scheduling": "instances"}
    for label, values in published.items():
        batch = int(label.removeprefix("batch "))
        simulated, plan_command = tailored_on_a100(steps, batch)
        for compiler, value in values.items():
            yield Row(
                f"{label}, {compiler}",
                value,
                simulated[variants[compiler]]["seconds"] * 1e3,
                "ms",
                How.SIMULATED,
                "a100",
                plan_command,
                "assumed: half precision (the peak of single precision would take longer than was "
                "published); runs of any length are fused here, CUTLASS fuses two convolutions; "
                "instances are sized to the L2; instructions of layers do not overlap, as there",
            )
