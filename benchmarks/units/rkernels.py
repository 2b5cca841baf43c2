"""The rKernels of a network's contractions: tasks, their profiled times, and which is best at what.

Each distinct unit with a contraction is a row for each of its rKernels; equal units are counted.
*Work* is the time of all tasks one after another on one lane. Measurements are remembered in the
cache, as for searching; a fresh folder in TVM_IOS_CACHE measures anew.
"""

from __future__ import annotations

import argparse
from collections import Counter
from typing import Any

from rich.table import Table

from benchmarks.report import write_result
from relay_passes.load import load_model
from relay_passes.measured_module import MeasuredModule
from relay_passes.pipeline import prepare
from relay_passes.relax.target_units import RelaxUnits
from relay_passes.search_options import SearchOptions
from runtime_ext.kernels.spec import Contraction
from runtime_ext.machine.this_machine import available_lanes
from runtime_ext.units.plans import plan_unit
from tvm_ios.cli.frame.output import console
from tvm_ios.schedule.rkernel import RKernel, fastest, most_efficient

NETWORKS = ("squeezenet", "inception_v3", "nasnet_a", "randwire")


def contractions(search: MeasuredModule[RelaxUnits]) -> dict[int, int]:
    """The first of each kind of units with a contraction, and how many of the kind there are."""
    timer, graph = search.timer, search.prepared.units
    keys = [timer.unit_key(graph, unit) for unit in range(len(graph))]
    counts = Counter(keys)
    return {
        keys.index(key): count
        for key, count in counts.items()
        if any(
            isinstance(kernel.spec, Contraction)
            for kernel in plan_unit(
                search.units.source((keys.index(key),)), search.units.backend.compiler.space
            ).kernels
        )
    }


def measure(network: str, lanes: int) -> dict[str, Any]:
    prepared = prepare(load_model(network).module, network)
    search = MeasuredModule(RelaxUnits(prepared, SearchOptions(lanes=lanes)))
    search.timer.compile_units()
    search.timer.rkernels.measure()
    units = [
        {
            "unit": prepared.units.operators[unit].name,
            "kind": prepared.units.operators[unit].kind,
            "equal_units": count,
            "rkernels": [row(kernel) for kernel in kernels],
            "fastest": fastest(kernels).name,
            "most_efficient": most_efficient(kernels).name,
        }
        for unit, count in contractions(search).items()
        for kernels in [search.timer.rkernels(unit)]
    ]
    return {"model": network, "lanes": lanes, "units": units}


def row(kernel: RKernel) -> dict[str, Any]:
    return {
        "name": kernel.name,
        "tasks": kernel.tasks,
        "task_seconds": kernel.task_seconds,
        "work": kernel.work,
        "seconds": kernel.seconds,
    }


def show(network: dict[str, Any]) -> None:
    table = Table("unit", "rKernel", "tasks", "task µs", "work µs", title=network["model"])
    table.add_column(f"{network['lanes']} lanes µs")
    table.add_column("best at")
    for unit in network["units"]:
        for i, kernel in enumerate(unit["rkernels"]):
            marks = {"fastest": "time", "most_efficient": "work"}
            table.add_row(
                "" if i else f"{unit['equal_units']} x {unit['unit']}",
                kernel["name"],
                ", ".join(map(str, kernel["tasks"])),
                ", ".join(f"{seconds * 1e6:.2f}" for seconds in kernel["task_seconds"]),
                f"{kernel['work'] * 1e6:.1f}",
                f"{kernel['seconds'] * 1e6:.1f}",
                ", ".join(word for key, word in marks.items() if unit[key] == kernel["name"]),
                end_section=i == len(unit["rkernels"]) - 1,
            )
    console().print(table)
    console().print(summary(network))


def summary(network: dict[str, Any]) -> str:
    """How far apart the two choices are, and what both are over the form used by default."""
    differ, slower, more_work = 0, 1.0, 1.0
    total: Counter[str] = Counter()
    for unit in network["units"]:
        by_name = {kernel["name"]: kernel for kernel in unit["rkernels"]}
        default = unit["rkernels"][0]
        quick, lean = by_name[unit["fastest"]], by_name[unit["most_efficient"]]
        differ += quick is not lean
        slower = max(slower, lean["seconds"] / quick["seconds"])
        more_work = max(more_work, quick["work"] / lean["work"])
        for name, kernel, what in (
            ("seconds", default, "seconds"),
            ("fastest", quick, "seconds"),
            ("work", default, "work"),
            ("leanest", lean, "work"),
        ):
            total[name] += unit["equal_units"] * kernel[what]
    return (
        f"{network['model']}: fastest and most efficient differ in {differ} of "
        f"{len(network['units'])} units; the most efficient takes up to {slower:.2f} of the "
        f"fastest's time, the fastest does up to {more_work:.2f} of its work. Over all units, to "
        f"the default: time of the fastest {total['fastest'] / total['seconds']:.3f}, work of the "
        f"most efficient {total['leanest'] / total['work']:.3f}."
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("networks", nargs="*", default=NETWORKS)
    parser.add_argument("--lanes", type=int, default=available_lanes())
    given = parser.parse_args()
    figures: list[Any] = []
    for network in given.networks:
        figures.append(measure(network, given.lanes))
        show(figures[-1])
        print(write_result("rkernels", figures))


if __name__ == "__main__":
    main()
