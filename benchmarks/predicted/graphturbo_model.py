"""What splitting sub-graphs is predicted to gain on a CPU's lanes, before anything is measured.

For each network and batch: the time of layer by layer and of the sub-graphs that the policy
``graphturbo`` would split, by the model of ``tvm_ios.graphturbo.worth``; which share of the work
is split, and what is computed twice. Without a device file this machine's peak and memory
bandwidth are measured, which takes a second.
"""

from __future__ import annotations

import argparse
import math

from rich.table import Table

from benchmarks.report import write_result
from runtime_ext.cpu.hierarchy import cpu_hierarchy
from runtime_ext.machine.this_machine import available_lanes
from tvm_ios import zoo
from tvm_ios.cli.frame.output import console
from tvm_ios.devices.memory_hierarchy import MemoryHierarchy, load_hierarchy
from tvm_ios.graph.units import form_units
from tvm_ios.graphturbo.cluster.workload import with_batch
from tvm_ios.graphturbo.instances import split_into_instances
from tvm_ios.graphturbo.layers import unit_layers
from tvm_ios.graphturbo.policy import lane_splitters
from tvm_ios.graphturbo.worth import choose_subgraphs, lane_capacities
from tvm_ios.onnx.graph import graph_from_onnx

NETWORKS = ("resnet50", "mobilenet_v2", "densenet121", "squeezenet", "nasnet_a_mobile")
BATCHES = (1, 8, 32)


def predict(network: str, batch: int, device: MemoryHierarchy) -> dict[str, object]:
    graph = graph_from_onnx(zoo.build(network))
    graph = with_batch(graph, batch) if batch > 1 else graph
    layers = unit_layers(graph, form_units(graph))
    splitters = lane_splitters(layers, lane_capacities(device), device.cores)
    choice = choose_subgraphs(splitters, device)
    instances = split_into_instances(layers, choice.subgraphs).instances
    work = sum(operator.flops for operator in layers.graph.operators)
    split = sum(i.work.flops for i in instances if choice.subgraphs[i.subgraph].split is not None)
    return {
        "model": network,
        "batch": batch,
        "layer_by_layer_ms": 1e3 * choice.layer_by_layer,
        "instances_ms": 1e3 * choice.seconds,
        "speed_up": choice.layer_by_layer / choice.seconds,
        "least_ms": 1e3 * work / device.peak_flops,
        "split_work": split / work,
        "extra_work": sum(i.work.flops for i in instances) / work - 1,
        "subgraphs": [
            [s.factor, sorted(set(s.split.axes.values()))] for s in choice.subgraphs if s.split
        ],
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=str(__doc__).splitlines()[0])
    parser.add_argument("networks", nargs="*", help=f"of the zoo; by default {NETWORKS}")
    parser.add_argument("--batch", type=int, action="append", help=f"by default {BATCHES}")
    parser.add_argument("--device", help="a memory hierarchy's .json instead of this machine")
    parser.add_argument("--lanes", type=int, default=available_lanes())
    arguments = parser.parse_args()
    device = (
        load_hierarchy(arguments.device) if arguments.device else cpu_hierarchy(arguments.lanes)
    )
    table = Table(title="predicted: instances on lanes over layer by layer")
    for column in ("model", "batch", "layers ms", "instances ms", "speed-up", "peak ms", "split"):
        table.add_column(column, justify="left" if column == "model" else "right")
    rows = [
        predict(network, batch, device)
        for network in arguments.networks or NETWORKS
        for batch in arguments.batch or BATCHES
    ]
    for row in rows:
        table.add_row(
            str(row["model"]),
            str(row["batch"]),
            *(f"{row[key]:.2f}" for key in ("layer_by_layer_ms", "instances_ms", "speed_up")),
            f"{row['least_ms']:.2f}",
            f"{row['split_work']:.0%}",
        )
    console().print(table)
    mean = math.prod(float(str(row["speed_up"])) for row in rows) ** (1 / len(rows))
    console().print(f"geometric mean: {mean:.3f}")
    write_result("graphturbo_model", {"device": device.sources, "rows": rows})


if __name__ == "__main__":
    main()
