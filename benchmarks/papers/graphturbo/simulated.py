"""The networks of GraphTurbo's evaluation, simulated on described accelerators."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import replace
from types import MappingProxyType
from typing import Any

from benchmarks.papers.row import How, Row
from benchmarks.papers.steps import Steps
from tvm_ios.devices.memory_hierarchy import load_hierarchy
from tvm_ios.graph.op_graph import OpGraph
from tvm_ios.graphturbo.cluster.engines import Engine
from tvm_ios.graphturbo.cluster.placement import Placement
from tvm_ios.graphturbo.cluster.spilling import Scope
from tvm_ios.graphturbo.cluster.variants import VARIANTS, Variants
from tvm_ios.graphturbo.cluster.workload import in_half_precision, with_batch
from tvm_ios.models.load import load_operators

#: The networks of table 2 in the zoo.
ZOO: Mapping[str, str] = MappingProxyType(
    {
        "ResNet-50": "resnet50",
        "BERT-128": "bert_128",
        "BERT-256": "bert_256",
        "BERT-384": "bert_384",
        "BERT-512": "bert_512",
        "DLRM": "dlrm",
        "MobileNet-v2": "mobilenet_v2",
        "Vision_Transformer": "vit_base",
        "DenseNet": "densenet121",
        "Conformer": "conformer",
    }
)

#: For each network the batches of a cluster of table 2: TVM's, and GraphTurbo's.
BATCHES: Mapping[str, tuple[int, int]] = MappingProxyType(
    {
        "ResNet-50": (2, 16),
        "BERT-128": (4, 8),
        "BERT-256": (2, 4),
        "BERT-384": (1, 2),
        "BERT-512": (1, 2),
        "DLRM": (64, 256),
        "MobileNet-v2": (2, 32),
        "Vision_Transformer": (4, 8),
        "DenseNet": (4, 8),
        "Conformer": (1, 3),
    }
)

#: The network of figure 18 and table 5 in the zoo.
_TAILORED = "resnet18_tailor"

#: Table 3's names of levels.
LEVELS = {"DDR": Scope.MEMORY, "LLB": Scope.GLOBAL, "L1": Scope.LOCAL}


def simulate_network(
    network: str,
    batch: int,
    device: str,
    placement: str = Placement.FASTEST,
    weight_clusters: int = 1,
    with_sums: bool | None = None,
) -> dict[str, Any]:
    """All variants of a network of the zoo, in half precision.

    Parameters
    ----------
    network
        Its name in the zoo.
    batch
        Images, sentences or queries of a cluster.
    device
        The name of a memory hierarchy.
    placement
        The rule by which tensors are placed.
    weight_clusters
        The clusters that one fetch of weights serves.
    with_sums
        Whether sums continue the layer before them; by default as the placement has it.
    """
    graph = half_precision(network, batch)
    hierarchy = replace(load_hierarchy(device), weight_clusters=weight_clusters)
    variants = Variants(graph, hierarchy, Placement(placement), with_sums=with_sums)
    results: dict[str, Any] = {}
    for name in VARIANTS:
        begin = time.perf_counter()
        simulation = variants[name]
        results[name] = {
            "planning_seconds": time.perf_counter() - begin,
            "seconds": simulation.seconds,
            "throughput": variants.throughput(name),
            "kernels": simulation.kernels,
            "tensors": {level: simulation.tensors[scope] for level, scope in LEVELS.items()},
            "matrix": simulation.usage(Engine.MATRIX),
            "vector": simulation.usage(Engine.VECTOR),
        }
    chosen, program = variants.split("prefetch")
    results["factors"] = [subgraph.factor for subgraph in program.instances.subgraphs]
    results["instances_fit_bytes"] = chosen.capacity
    return results


def half_precision(network: str, batch: int) -> OpGraph:
    """The operators of a network of the zoo for a batch, with numbers of 16 bits."""
    return in_half_precision(with_batch(load_operators(network), batch))


def on_stcp920(steps: Steps, network: str, batch: int, *options: str | int) -> dict[str, Any]:
    """What :func:`simulate_network` gives for a network of table 2."""
    return steps.once(simulate_network, ZOO[network], batch, "stcp920", *options)


def as_published(steps: Steps, network: str) -> dict[str, Any]:
    """The same with the paper's placement and batch."""
    return on_stcp920(steps, network, BATCHES[network][1], Placement.PUBLISHED)


def best_batch(
    steps: Steps, network: str, variant: str = "prefetch", placement: str = Placement.FASTEST
) -> int:
    """The batch of a cluster with the highest throughput (section 5.1).

    Of those of table 2, and half of GraphTurbo's.
    """
    theirs, ours = BATCHES[network]
    # The default goes unnamed: simulations are kept by their arguments.
    options = () if placement == Placement.FASTEST else (placement,)
    batches = sorted({theirs, -(-ours // 2), ours})
    return max(
        batches, key=lambda b: on_stcp920(steps, network, b, *options)[variant]["throughput"]
    )


def command(network: str, batch: int, options: str = "") -> str:
    """What prints GraphTurbo's plan of a network for so many images of a cluster."""
    return _plans(ZOO[network], "stcp920", batch * 4) + options


def tailored_on_a100(steps: Steps, batch: int) -> tuple[dict[str, Any], str]:
    """ResNet18-Tailor on an A100: what :func:`simulate_network` gives, and what prints its plan."""
    # A kernel of CUTLASS is a convolution and its ReLU (figure 18).
    options = (Placement.FASTEST, 1, False)
    simulated = steps.once(simulate_network, _TAILORED, batch, "a100", *options)
    return simulated, _plans(_TAILORED, "a100", batch)


def vendors_row(label: str, value: float, unit: str) -> Row:
    """What the accelerator's vendor reached, which nobody else can repeat."""
    note = "the vendor's hand-written code is not public"
    return Row(label, value, None, unit, How.NOT_POSSIBLE, note=note)


def _plans(network: str, device: str, batch: int) -> str:
    return (
        f"tvm-ios schedule {network} --policy graphturbo --cost {device} --batch {batch} "
        "--precision float16"
    )
