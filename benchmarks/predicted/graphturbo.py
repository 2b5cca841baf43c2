"""GraphTurbo's partitions, and its figure 15 on a simulated STCP920.

For ResNet-50 with 8 images a cluster: from which local buffer on the four stages are the coarse
sub-graphs, and in which order their instances run. For each network, at the batches a cluster that
the model finds best: the modelled speed-up of each of the paper's variants over layer by layer,
and where tensors lie. Then what becomes of the speed-ups when an assumed figure is another, and of
the throughput over that of the paper's placement. Nothing is measured; every figure of the device
and its source is in ``tvm_ios/devices/hierarchy_data``.
"""

from __future__ import annotations

import argparse
import json
import math
from collections.abc import Sequence
from dataclasses import asdict, replace
from typing import Any

from rich.table import Table

from benchmarks.report import write_result
from tvm_ios import zoo
from tvm_ios.cli.frame.output import console, progress_bars
from tvm_ios.devices.memory_hierarchy import MemoryHierarchy, load_hierarchy
from tvm_ios.graph.op_graph import OpGraph
from tvm_ios.graphturbo.cluster.placement import Placement
from tvm_ios.graphturbo.cluster.simulate import Optimisations, simulate
from tvm_ios.graphturbo.cluster.spilling import Scope
from tvm_ios.graphturbo.cluster.variants import VARIANTS, Variants, tune_batch
from tvm_ios.graphturbo.cluster.workload import in_half_precision, with_batch
from tvm_ios.graphturbo.grouping import group
from tvm_ios.graphturbo.instances import split_into_instances
from tvm_ios.graphturbo.layers import form_layers
from tvm_ios.graphturbo.orders import order_instances
from tvm_ios.graphturbo.split_info import Splitter
from tvm_ios.onnx.graph import graph_from_onnx

RESULT = "graphturbo"
NETWORKS = ("resnet50", "mobilenet_v2", "densenet121", "bert_small", "vit_tiny", "dlrm")
FACTORS = (8, 4, 2, 1)
IMAGES = 8
#: Batches a cluster.
MOST = {"dlrm": 256, "mobilenet_v2": 32}
ASSUMED = ("peak_flops", "vector_flops", "global_bandwidth", "local_bandwidth", "kernel_overhead")
#: Figures that are assumed, and by how much each is multiplied.
CHANGES = (
    *((figure, factor) for figure in ASSUMED for factor in (0.5, 2)),
    ("global_bandwidth", 0.25),
    ("global_bandwidth", 4),
    ("weight_clusters", 4),
)
#: Averages of seven models (section 5.3), and two models' totals (sections 2.1 and 5.1).
PUBLISHED = {
    "local": 3.67,
    "instances": 3.67 * 2.20,
    "prefetch": 11.15,
    "resnet50": 7.97,
    "bert-128": 4052 / 512,
}


def factors(graph: OpGraph, capacity: int) -> list[int | None]:
    """The splitting factors of the sub-graphs; None where nothing fits."""
    return [s.split and s.split.factor for s in group(Splitter(form_layers(graph), capacity))]


def window(graph: OpGraph, wanted: Sequence[int]) -> tuple[int, int] | None:
    """The least and the largest buffer, in bytes, whose sub-graphs have these factors."""
    capacity = 1 << 20
    while factors(graph, capacity) != list(wanted):
        capacity += capacity // 12
        if capacity > 1 << 30:
            return None
    return edge(graph, wanted, capacity // 2, capacity), edge(graph, wanted, 2 * capacity, capacity)


def edge(graph: OpGraph, wanted: Sequence[int], outside: int, inside: int) -> int:
    """The last capacity towards the outside that still gives the factors."""
    while abs(outside - inside) > 1:
        middle = (outside + inside) // 2
        if factors(graph, middle) == list(wanted):
            inside = middle
        else:
            outside = middle
    return inside


def stages() -> list[dict[str, Any]]:
    """ResNet-50's stages in both precisions."""
    rows: list[dict[str, Any]] = []
    single = with_batch(graph_from_onnx(zoo.build("resnet50")), IMAGES)
    device = load_hierarchy("stcp920")
    for name, graph in (("float32", single), ("float16", in_half_precision(single))):
        sizes = window(graph, FACTORS)
        assert sizes is not None
        split = Splitter(form_layers(graph), sizes[0])
        instances = split_into_instances(split.layers, group(split))
        orders = order_instances(instances)
        buffers = {
            "local buffer of a core": device.local_buffer,
            "local buffers of a cluster": device.cluster_local_buffer,
            "global buffer": device.global_buffer,
        }
        rows.append(
            {
                "precision": name,
                "factors": FACTORS,
                "least_bytes": sizes[0],
                "largest_bytes": sizes[1],
                "order": orders[0].name,
                "proven": orders[0].proven,
                "stages": [instances.instances[i].subgraph + 1 for i in orders[0].order],
                "peak_bytes": {order.name: order.peak for order in orders},
                "with": {key: factors(graph, size) for key, size in buffers.items()},
            }
        )
    return rows


def fits(graph: OpGraph, device: MemoryHierarchy) -> bool:
    """Whether the global buffer holds what any one operator reads and makes, without weights."""
    return all(
        sum(graph.tensors[t].nbytes for t in {*op.inputs, *op.outputs} if not constant(graph, t))
        <= device.global_buffer
        for op in graph.operators
    )


def constant(graph: OpGraph, tensor: int) -> bool:
    return graph.tensors[tensor].constant


def simulated(network: str, device: MemoryHierarchy) -> dict[str, Any]:
    """The variants of one network, each at its best batch."""
    single = in_half_precision(graph_from_onnx(zoo.build(network)))
    graphs: dict[int, OpGraph] = {}
    runs: dict[int, Variants] = {}

    def run(batch: int) -> Variants:
        if batch not in runs:
            graphs[batch] = with_batch(single, batch)
            runs[batch] = Variants(graphs[batch], device)
        return runs[batch]

    most = MOST.get(network, 16)
    plain = tune_batch(
        lambda n: run(n)["layers"].seconds,
        most,
        lambda n: fits(with_batch(single, n), device),
    )
    best = tune_batch(lambda n: run(n)["prefetch"].seconds, most)
    base = run(plain).throughput("layers")
    rows = {"layers": run(plain)} | {v: run(best) for v in VARIANTS[1:]}
    same = run(best).throughput("layers")
    # The paper's placement depends on the sizes of buffers alone.
    published = Variants(graphs[best], device, Placement.PUBLISHED).program("prefetch")
    sensitivity, over_published = {}, {}
    for figure, factor in CHANGES:
        changed = replace(device, **{figure: getattr(device, figure) * factor})
        now, before = (Variants(graphs[batch], changed) for batch in (best, plain))
        name = f"{figure} x {factor:g}"
        sensitivity[name] = now.throughput("prefetch") / before.throughput("layers")
        theirs = simulate(published, changed, Optimisations(Scope.LOCAL, across_layers=True))
        over_published[name] = theirs.seconds / now["prefetch"].seconds
    return {
        "model": network,
        "batch": {"layers": plain, "graphturbo": best},
        "sized_to_bytes": run(best).split("prefetch")[0].capacity,
        "throughput": {v: rows[v].throughput(v) for v in VARIANTS},
        "speed_up": {v: rows[v].throughput(v) / base for v in VARIANTS},
        "speed_up_at_the_same_batch": {v: run(best).throughput(v) / same for v in VARIANTS},
        "tensors": {v: {s.name.lower(): rows[v][v].tensors[s] for s in Scope} for v in VARIANTS},
        "memory_bytes_an_image": {
            v: rows[v][v].traffic[Scope.MEMORY] / rows[v].graph.batch for v in VARIANTS
        },
        "throughput_by_batch": {n: r.throughput("prefetch") for n, r in runs.items()},
        "sensitivity": sensitivity,
        "over_published_placement": over_published,
    }


def show(figures: dict[str, Any]) -> None:
    for row in figures["stages"]:
        console().print(
            f"resnet50, {IMAGES} images, {row['precision']}: factors 8, 4, 2, 1 with "
            f"{row['least_bytes'] / 2**20:.3f} to {row['largest_bytes'] / 2**20:.3f} MiB; "
            f"{row['order']}{', proven least peak' if row['proven'] else ''}: "
            f"{' '.join(map(str, row['stages']))}"
        )
        for key, factors in row["with"].items():
            unfit = sum(factor is None for factor in factors)
            some = [factor for factor in factors if factor][:12]
            console().print(f"  {key}: {len(factors)} sub-graphs, {unfit} too large; {some}")
    table = Table(title="simulated STCP920, half precision: throughput over layer by layer")
    for column in ("model", "batch", *VARIANTS[1:], "same batch", "L1", "LLB", "DDR", "DDR before"):
        table.add_column(column, justify="left" if column == "model" else "right")
    for row in figures["networks"]:
        tensors = row["tensors"]
        table.add_row(
            row["model"],
            f"{row['batch']['layers']}, {row['batch']['graphturbo']}",
            *(f"{row['speed_up'][v]:.2f}" for v in VARIANTS[1:]),
            f"{row['speed_up_at_the_same_batch']['prefetch']:.2f}",
            *(str(tensors["prefetch"][s.name.lower()]) for s in Scope),
            str(tensors["layers"]["memory"]),
        )
    mean = {
        v: math.prod(r["speed_up"][v] for r in figures["networks"])
        ** (1 / len(figures["networks"]))
        for v in VARIANTS[1:]
    }
    table.add_row("geometric mean", "", *(f"{mean[v]:.2f}" for v in VARIANTS[1:]))
    published = figures["published"]
    table.add_row("published mean", "", *(f"{published.get(v, math.nan):.2f}" for v in mean))
    console().print(table)
    for key, title in (
        ("sensitivity", "last variant over layer by layer when an assumed figure is changed"),
        ("over_published_placement", "last variant over the paper's placement, likewise"),
    ):
        table = Table(title=title)
        for column in ("model", *figures["networks"][0][key]):
            table.add_column(column, justify="left" if column == "model" else "right")
        for row in figures["networks"]:
            table.add_row(row["model"], *(f"{ratio:.2f}" for ratio in row[key].values()))
        console().print(table)


def main() -> None:
    parser = argparse.ArgumentParser(description=str(__doc__).splitlines()[0])
    parser.add_argument("networks", nargs="*", help=f"of the zoo; by default {NETWORKS}")
    parser.add_argument("--device", default="stcp920", help="a memory hierarchy")
    parser.add_argument("--json", action="store_true", help="one JSON object on stdout")
    arguments = parser.parse_args()
    networks = arguments.networks or NETWORKS
    device = load_hierarchy(arguments.device)
    with progress_bars() as update:
        rows: list[dict[str, Any]] = []
        for done, network in enumerate(networks):
            update("networks", done, len(networks))
            rows.append(simulated(network, device))
        update("networks", len(networks), len(networks))
    figures = {
        "device": asdict(device),
        "stages": stages(),
        "networks": rows,
        "published": PUBLISHED,
    }
    if arguments.json:
        print(json.dumps(figures))
        return
    show(figures)
    if not arguments.networks and arguments.device == "stcp920":
        write_result(RESULT, figures)


if __name__ == "__main__":
    main()
