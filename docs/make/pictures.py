"""Draws the pictures of docs/concepts.md and the README anew, from schedules of described devices.

    python docs/make/pictures.py            draw all
    python docs/make/pictures.py instances  draw one

``tests/docs/test_pictures.py`` draws them again and compares what they say.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from tvm_ios.api import load_operators, load_units
from tvm_ios.costs.analytic import AnalyticCost
from tvm_ios.costs.named import costs_named
from tvm_ios.devices.device import load_device
from tvm_ios.devices.engine import IOS
from tvm_ios.graph.op_graph import bits
from tvm_ios.graph.units import form_units
from tvm_ios.graphturbo.orders import order_instances
from tvm_ios.graphturbo.policy import choose_instances, schedule_on_lanes
from tvm_ios.memory.footprint import footprints
from tvm_ios.memory.operators import with_biases
from tvm_ios.memory.problem import memory_problem
from tvm_ios.memory.schedulers import MEMORY_SCHEDULERS
from tvm_ios.models.source import ModelSource
from tvm_ios.plot import (
    plot_footprints,
    plot_instances,
    plot_placement,
    plot_schedule,
    save_picture,
)
from tvm_ios.plot.pictures import pyplot
from tvm_ios.policies.policy import Limits, Problem
from tvm_ios.rammer.wavefront import co_schedule, wavefront_programs
from tvm_ios.search import Search, search

DOCS = Path(__file__).parents[1]
_DEVICE = "v100"


def schedule() -> Any:
    """Inception V3 on a V100, as ``tvm-ios schedule inception_v3 --cost v100 --plot`` draws it."""
    units, costs = load_units("inception_v3"), costs_named(_DEVICE)
    found = search(Problem.of(units, 40), "ios-both", costs)
    return plot_schedule(units, found.schedule, model=costs.stages)


def ios() -> Any:
    """Sequential, greedy and IOS on the network of the IOS paper's figure 2."""
    units, costs = load_units("ios_figure_2"), costs_named(_DEVICE, IOS)
    searches = Search(Problem.of(units, 40), costs, Limits())
    _, rows = pyplot().subplots(3, figsize=(9, 5.5), layout="constrained")
    for ax, policy in zip(rows, ("sequential", "greedy", "ios-both"), strict=True):
        found = searches.find(policy, priced=True)
        plot_schedule(units, found.schedule, model=costs.stages, ax=ax)
    return _on_one_scale(rows)


def rtasks() -> Any:
    """An Inception block on four vEUs: operators by themselves, and Rammer's rProgram."""
    units = load_units("inception_block")
    cost = AnalyticCost(replace(load_device("cpu"), processors=4))
    kernels = partial(cost.rkernels, units)
    (program,) = wavefront_programs(units, kernels, cost.veus)
    _, rows = pyplot().subplots(2, figsize=(9, 4.5), layout="constrained")
    alone, placed = rows
    each = (co_schedule(units, (unit,), kernels, cost.veus) for unit in range(len(units)))
    plot_placement(units, *each, ax=alone)
    plot_placement(units, program, ax=placed)
    for ax, what in ((alone, "one operator after another"), (placed, "rTasks of all operators")):
        ax.set_title(f"{what}: {ax.get_title().rpartition(', ')[2]}", fontsize=10)
    return _on_one_scale(rows)


def instances() -> Any:
    """MobileNet V2 with four images on two lanes of a CPU: instances, and what they keep."""
    lanes, cost = 2, AnalyticCost(load_device("cpu"))
    graph = load_operators(ModelSource("mobilenet_v2", batch=4))
    units = form_units(graph)
    split = choose_instances(graph, units, lanes=lanes, capacity=2 << 20, axes=(0,))
    plan = schedule_on_lanes(units, split, lanes=lanes).instances
    assert plan is not None
    seconds = [
        lanes * sum(cost.unit_latency(units, unit) for unit in part.units) / part.factor
        for part in plan.subgraphs
    ]
    _, rows = pyplot().subplots(2, figsize=(9, 5.5), layout="constrained")
    places = [(instance.subgraph, instance.part) for instance in split.instances]
    plot_instances(
        plan,
        {
            place: [places[other] for other in bits(read)]
            for place, read in zip(places, split.predecessors, strict=True)
        },
        seconds,
        lanes,
        title="MobileNet V2, 4 images: instances on two lanes (kernels alone, simulated)",
        ax=rows[0],
    )
    order = min(order_instances(split, exact=False), key=lambda order: order.peak)
    in_instances = footprints(split.as_graph, order.order, scratch=split.scratch).stable
    # On the axis an instance is as long as its share of the layers.
    parts = [split.subgraphs[split.instances[number].subgraph] for number in order.order]
    lengths = [part.layers.bit_count() * 4 // part.factor for part in parts]
    curves = {
        "layer by layer": [
            b for b in footprints(units, range(len(units))).stable for _ in range(4)
        ],
        "instances": [
            b for b, count in zip(in_instances, lengths, strict=True) for _ in range(count)
        ],
    }
    plot_footprints(curves, ax=rows[1])
    rows[1].set_xlabel("from the first layer of the first image to the last of the last")
    rows[1].set_xticks([])
    return rows[0]


def memory() -> Any:
    """A cell network in the order that compilers commonly use, and in the best one."""
    problem = memory_problem(with_biases(load_operators("darts_cifar")))
    orders = {name: MEMORY_SCHEDULERS[name](problem, 60.0) for name in ("rpo", "optimal")}
    names = {"rpo": "reverse post-order", "optimal": "the least peak, proven"}
    assert orders["optimal"].proven
    curves = {names[n]: problem.footprints(o.order).stable for n, o in orders.items()}
    ax = plot_footprints(curves)
    ax.figure.set_size_inches(9, 3)
    return ax


#: Each picture by its file's name.
PICTURES: Mapping[str, Callable[[], Any]] = {
    made.__name__: made for made in (schedule, ios, rtasks, instances, memory)
}


def path_of(name: str) -> Path:
    """Where a picture lies."""
    return DOCS / "schedule.svg" if name == "schedule" else DOCS / "pictures" / f"{name}.svg"


def _on_one_scale(rows: Any) -> Any:
    """Give axes the widest one's range, so that widths can be compared."""
    most = max(ax.get_xlim()[1] for ax in rows)
    for ax in rows:
        ax.set_xlim(0, most)
        if ax is not rows[-1]:
            ax.set_xlabel("")
            ax.tick_params(labelbottom=False)
    return rows[0]


def main() -> None:
    """Draw the named pictures, or all."""
    for name in sys.argv[1:] or PICTURES:
        path_of(name).parent.mkdir(exist_ok=True)
        save_picture(PICTURES[name](), path_of(name))


if __name__ == "__main__":
    main()
