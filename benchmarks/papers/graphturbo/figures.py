"""Figures 2, 3 and 14 to 18 of GraphTurbo: sub-graphs, speed-ups, and the use of engines."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from statistics import mean
from typing import Any

from benchmarks.papers.graphturbo.simulated import (
    BATCHES,
    as_published,
    best_batch,
    command,
    half_precision,
    on_stcp920,
    tailored_on_a100,
    vendors_row,
)
from benchmarks.papers.row import How, Row
from benchmarks.papers.steps import Steps
from tvm_ios.devices.memory_hierarchy import load_hierarchy
from tvm_ios.graph.op_graph import bits
from tvm_ios.graphturbo.cluster.engines import Engine
from tvm_ios.graphturbo.cluster.variants import Variants
from tvm_ios.graphturbo.grouping import group
from tvm_ios.graphturbo.layers import form_layers
from tvm_ios.graphturbo.split_info import Splitter

_ASSUMED = (
    "peaks, rates of buffers and kernel starts of the STCP920 are assumed, and a simulated kernel "
    "computes at the peak (docs/accelerators.md)"
)
_MEAN = f"arithmetic means of ten networks, each variant at its best batch of a cluster; {_ASSUMED}"

_RULE = "by the paper's placement"
_RULE_NOTE = f"at the paper's batches of a cluster; {_ASSUMED}"

#: Images of a cluster, at which the four stages of ResNet-50 are the sub-graphs (section 2.1).
_STAGES_BATCH = 8


def stage_two(published: Mapping[str, Any], steps: Steps) -> Iterator[Row]:
    """Operators of the second stage of ResNet-50 (figures 2 and 10)."""
    counted = steps.once(operators_of_stage_two)
    for quantity, value in published["stage 2"].items():
        note = (
            "without the four additions of the shortcuts; a bias is what remains of each batch norm"
        )
        yield Row(
            f"stage 2, {quantity}", value, counted[quantity], "", How.COUNTED, note=note,
            command=command("ResNet-50", _STAGES_BATCH),
        )  # fmt: skip


def operators_of_stage_two() -> dict[str, int]:
    """Operators and convolutions of the second sub-graph of ResNet-50."""
    graph = half_precision("resnet50", _STAGES_BATCH)
    layers = form_layers(graph)
    stages = group(Splitter(layers, load_hierarchy("stcp920").global_buffer))
    members = [op for layer in bits(stages[1].layers) for op in layers.members[layer]]
    kinds = [graph.operators[op].kind for op in members]
    return {
        "operators": sum(kind != "add" for kind in kinds),
        "convolutions": kinds.count("conv2d"),
    }


def order_of_resnet(published: Mapping[str, Any], steps: Steps) -> Iterator[Row]:
    """The speed-up of ordered instances of ResNet-50 (figure 3)."""
    batch = best_batch(steps, "ResNet-50")
    for label, value in published.items():
        ours = _speed_up(steps, "ResNet-50", "prefetch", "layers")
        yield Row(
            label, value, ours, "x", How.SIMULATED, "stcp920", command("ResNet-50", batch),
            _ASSUMED,
            neutral=1,
        )  # fmt: skip


def speed_ups(published: Mapping[str, Any], steps: Steps) -> Iterator[Row]:
    """Throughput over TVM's and AStitch's, on average and of each network (figure 14)."""
    bases = {"TVM": "layers", "AStitch": "astitch"}
    for label, value in published.items():
        base = label.removeprefix("GraphTurbo over ").removesuffix(", average")
        if base not in bases:
            yield vendors_row(label, value, "x")
            continue
        ours = mean(_speed_up(steps, network, "prefetch", bases[base]) for network in BATCHES)
        yield Row(label, value, ours, "x", How.SIMULATED, "stcp920", note=_MEAN, neutral=1)
        published_rule = mean(_published_rule(steps, n, "prefetch", bases[base]) for n in BATCHES)
        yield Row(
            f"{label}, {_RULE}", None, published_rule, "x", How.SIMULATED, "stcp920", "", _RULE_NOTE
        )
    for network in BATCHES:
        for base, variant in bases.items():
            ours = _speed_up(steps, network, "prefetch", variant)
            label = f"{network}, GraphTurbo over {base}"
            yield Row(label, None, ours, "x", How.SIMULATED, "stcp920", note="drawn there")


def contributions(published: Mapping[str, Any], steps: Steps) -> Iterator[Row]:
    """Each optimisation switched on in turn (figure 15)."""
    pairs = {
        "tensors in L1, over TVM, average": ("local", "layers"),
        "instances in order, over tensors in L1, average": ("instances", "local"),
        "instruction scheduling, over instances in order, average": ("prefetch", "instances"),
    }
    for label, value in published.items():
        variant, base = pairs[label]
        ours = mean(_speed_up(steps, network, variant, base) for network in BATCHES)
        yield Row(label, value, ours, "x", How.SIMULATED, "stcp920", note=_MEAN, neutral=1)
        published_rule = mean(_published_rule(steps, n, variant, base) for n in BATCHES)
        yield Row(
            f"{label}, {_RULE}", None, published_rule, "x", How.SIMULATED, "stcp920", "", _RULE_NOTE
        )
    names = {"global": "LLB", "local": "L1", "instances": "instances", "prefetch": "all"}
    for network in BATCHES:
        for variant, name in names.items():
            ours = _speed_up(steps, network, variant, "layers")
            label = f"{network}, {name} over TVM"
            yield Row(label, None, ours, "x", How.SIMULATED, "stcp920", note="drawn there")


def engines_by_batch(published: Mapping[str, Any], steps: Steps) -> Iterator[Row]:
    """How busy the vector and the matrix engine are by batch (figure 16)."""
    for network, batches in {"ResNet-50": (2, 8, 16), "BERT-128": (2, 4, 8, 16)}.items():
        for batch in batches:
            simulated = on_stcp920(steps, network, batch)["prefetch"]
            for engine, name in (("vector", "VME"), ("matrix", "MME")):
                yield Row(
                    f"{network}, batch {batch}, {name}",
                    None,
                    simulated[engine] * 100,
                    "%",
                    How.SIMULATED,
                    "stcp920",
                    command(network, batch),
                    "drawn there; quantised networks are not simulated",
                )


def engines_by_stage(published: Mapping[str, Any], steps: Steps) -> Iterator[Row]:
    """How busy they are in the four stages of ResNet-50 (figure 17)."""
    used = steps.once(engines_in_stages)
    for compiler, stages in used.items():
        for stage, engines in enumerate(stages, 1):
            for name, share in engines.items():
                yield Row(
                    f"{compiler}, stage {stage}, {name}",
                    None,
                    share * 100,
                    "%",
                    How.SIMULATED,
                    "stcp920",
                    note="drawn there; stages are our sub-graphs for eight images of a cluster; "
                    "one that overlaps another has the time that it adds",
                )


def engines_in_stages() -> dict[str, list[dict[str, float]]]:
    """For TVM and GraphTurbo, stage by stage, the share of the time that engines work."""
    device = load_hierarchy("stcp920")
    graph = half_precision("resnet50", _STAGES_BATCH)
    layers, variants = form_layers(graph), Variants(graph, device)
    stages = group(Splitter(layers, device.global_buffer))
    home = {
        op: number
        for number, stage in enumerate(stages)
        for layer in bits(stage.layers)
        for op in layers.members[layer]
    }
    used: dict[str, list[dict[str, float]]] = {}
    for name, variant in (("TVM", "layers"), ("GraphTurbo", "prefetch")):
        program, simulation = variants.program(variant), variants[variant]
        seconds, last = [0.0] * len(stages), 0.0
        busy = [dict.fromkeys(("VME", "MME"), 0.0) for _ in stages]
        for step, (_, end), work in zip(
            program.steps, simulation.spans, simulation.busy, strict=True
        ):
            stage = home[variants.layers.members[step.tasks[0].layer][0]]
            # A step that overlaps the one before it has the time that it adds.
            seconds[stage] += max(0.0, end - last)
            last = max(last, end)
            busy[stage]["VME"] += work[Engine.VECTOR]
            busy[stage]["MME"] += work[Engine.MATRIX]
        used[name] = [
            {engine: value / seconds[n] for engine, value in stage.items()}
            for n, stage in enumerate(busy)
        ]
    return used


def tailored_resnet(published: Mapping[str, Any], steps: Steps) -> Iterator[Row]:
    """Sub-graphs and instances of ResNet18-Tailor on an A100 (figure 18)."""
    simulated, plan_command = tailored_on_a100(steps, 64)
    factors = simulated["factors"]
    ours = {
        "sub-graphs after fusion": len(factors),
        "instances of each of the first two sub-graphs": factors[0],
    }
    for label, value in published.items():
        yield Row(
            label, value, ours[label], "", How.SIMULATED, "a100", plan_command,
            f"64 images; instances of ours: {', '.join(map(str, factors))}, sized to the L2",
        )  # fmt: skip


def _published_rule(steps: Steps, network: str, variant: str, base: str) -> float:
    """Throughput by the paper's placement over that of another variant, layers without it."""
    rule = as_published(steps, network)
    plain = base in ("layers", "astitch")
    theirs = on_stcp920(steps, network, BATCHES[network][0]) if plain else rule
    return rule[variant]["throughput"] / theirs[base]["throughput"]


def _speed_up(steps: Steps, network: str, variant: str, base: str) -> float:
    """Throughput over that of another variant; TVM's is at its batch, others at their best."""
    ours, theirs = (
        on_stcp920(
            steps, network, BATCHES[network][0] if v == "layers" else best_batch(steps, network, v)
        )
        for v in (variant, base)
    )
    return ours[variant]["throughput"] / theirs[base]["throughput"]
