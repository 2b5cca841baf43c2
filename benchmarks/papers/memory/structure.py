"""How far fusion goes on a high-resolution block, and where networks have their peaks."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from benchmarks.papers.memory.peaks import NETWORKS, problem_of
from benchmarks.papers.row import How, Row
from benchmarks.papers.steps import Steps
from tvm_ios.graph.elements import Operator, Tensor
from tvm_ios.graph.op_graph import OpGraph
from tvm_ios.memory.exact.fusion import fuse
from tvm_ios.memory.operators import with_activations, with_biases
from tvm_ios.memory.options import SchedulerOptions
from tvm_ios.memory.problem import memory_problem
from tvm_ios.memory.published.hierarchy import hierarchy
from tvm_ios.memory.schedulers import MEMORY_SCHEDULERS
from tvm_ios.models.load import load_operators

#: Extents of the three branches of a high-resolution block, and its residual blocks in each.
_BRANCHES, _RESIDUAL_BLOCKS = (64, 32, 16), 4


def high_resolution_block(published: Mapping[str, Any], steps: Steps) -> Iterator[Row]:
    """What fusion leaves of three branches of residual blocks (figure 6)."""
    fused = fuse(memory_problem(_high_resolution_block()), math.inf)
    for label, value in published.items():
        yield Row(label, value, len(fused), "operators", How.COUNTED)


def _high_resolution_block() -> OpGraph:
    tensors: list[Tensor] = []
    operators: list[Operator] = []
    inputs: list[int] = []
    outputs: list[int] = []

    def tensor(extent: int) -> int:
        tensors.append(Tensor(f"t{len(tensors)}", (1, 16, extent, extent)))
        return len(tensors) - 1

    def add(kind: str, *read: int, extent: int) -> int:
        output = tensor(extent)
        operators.append(Operator(f"op{len(operators)}", kind, read, (output,)))
        return output

    for extent in _BRANCHES:
        value = tensor(extent)
        inputs.append(value)
        for _ in range(_RESIDUAL_BLOCKS):
            inner = add("conv2d", value, extent=extent)
            inner = add("conv2d", inner, extent=extent)
            value = add("add", value, inner, extent=extent)
        outputs.append(value)
    return OpGraph("block", tuple(operators), tuple(tensors), tuple(inputs), tuple(outputs))


def graph_scales(published: Mapping[str, Any], steps: Steps) -> Iterator[Row]:
    """How many fewer nodes fusion leaves than there are, and than HMCOS's sequences (figure 9)."""
    scales = {label: steps.once(nodes, *network) for label, network in NETWORKS.items()}
    ratios = {
        "largest reduction to the original graph": "original",
        "largest reduction to HMCOS's graph": "hmcos",
    }
    for label, value in published.items():
        best = max(scale[ratios[label]] / scale["fused"] for scale in scales.values())
        note = "HMCOS's graph is taken to be that of its sequences, before it groups them"
        yield Row(label, value, best, "x", How.COUNTED, note=note, neutral=1.0)
    for network, scale in scales.items():
        for kind, count in scale.items():
            label = {"original": "original", "hmcos": "HMCOS", "fused": "fused"}[kind]
            yield Row(f"{network}, {label}", None, count, "operators", How.COUNTED)


def nodes(network: str, options: Sequence[str]) -> dict[str, int]:
    """The nodes of a network of the zoo, of HMCOS's sequences, and after fusion."""
    problem = problem_of(network, options)
    level = hierarchy(problem, math.inf)
    assert level is not None
    return {
        "original": len(problem),
        "hmcos": len(level.graph),
        "fused": len(fuse(problem, math.inf)),
    }


def peak_positions(published: Mapping[str, Any], steps: Steps) -> Iterator[Row]:
    """Whether networks have their peak nearer to the input or to the output (figure 7)."""
    for network, value in published.items():
        ours = steps.once(peak_position, network)
        end = "nearer to the input" if ours < 0.5 else "nearer to the output"
        note = f"reverse post-order has its peak after {ours:.0%} of the operators"
        yield Row(network, value, end, "", How.COUNTED, note=note)


def peak_position(network: str) -> float:
    """Where in reverse post-order a network has its peak, as a part of its operators."""
    zoo, convert = {
        "NASNet": ("nasnet_a_mobile", with_biases),
        "HRNet": ("hrnet_w18_small_v1_256", with_activations),
    }[network]
    problem = memory_problem(convert(load_operators(zoo)))
    options = SchedulerOptions(rpo_from="outputs" if network == "NASNet" else "inputs")
    ordered = MEMORY_SCHEDULERS["rpo"](problem, 30.0, options)
    stable = problem.footprints(ordered.order).stable
    return stable.index(max(stable)) / len(stable)
