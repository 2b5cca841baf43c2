"""What fusion, pruning and partition do to the integer program and to its result."""

from __future__ import annotations

import math
import time
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

from benchmarks.papers.memory.peaks import (
    NETWORKS,
    command,
    peak,
    problem_of,
    scheduler_options_of,
    seconds_row,
    why_other,
)
from benchmarks.papers.memory.structure import nodes
from benchmarks.papers.row import How, Row
from benchmarks.papers.steps import Steps
from tvm_ios.memory.exact.fusion import fuse
from tvm_ios.memory.fused_graph import unfused
from tvm_ios.memory.options import SchedulerOptions
from tvm_ios.memory.orders import reverse_post_order
from tvm_ios.memory.problem import part_of
from tvm_ios.memory.published.fusion_ilp import PART, partition, schedule_fusion_ilp
from tvm_ios.memory.published.ilp import solve_order
from tvm_ios.memory.published.integer_program import integer_program

#: Seconds of each integer program, here; an hour there.
_LIMIT = 10.0
#: Seconds of a whole method, as in table II.
_WHOLE = 30.0

_ABLATED = {"NASNet": "NASNet-A", "Randwire": "Randwire1", "HRNet": "HRNet-W18-V1"}
#: What fusion and pruning are in the columns of table IV.
_COLUMNS = {
    "partition": (False, False),
    "partition and fusion": (True, False),
    "partition and pruning": (False, True),
    "all": (True, True),
}


def ablation(published: Mapping[str, Any], steps: Steps) -> Iterator[Row]:
    """Variables of the part of a network that has its peak, and seconds to solve it (table IV)."""
    for label, values in published.items():
        counted = {
            column: steps.once(part_program, *NETWORKS[_ABLATED[label]], *with_, _LIMIT)
            for column, with_ in _COLUMNS.items()
        }
        size = steps.once(nodes, *NETWORKS[_ABLATED[label]])["original"]
        for name, value in values.items():
            column, _, quantity = name.partition(", ")
            full = f"{label}, {name}"
            if column == "origin":
                note = f"the order of all {size} operators alone has {size**2:,} variables"
                yield Row(full, value, None, "s", How.NOT_POSSIBLE, note=note)
            elif quantity == "variables":
                ours = counted[column]["variables"]
                yield Row(full, value, ours, "", How.COUNTED, note=_PART_NOTE)
            elif quantity == "reduction":
                before = counted["partition"]["variables"]
                ours = 100 * (1 - counted[column]["variables"] / before)
                note = _PRUNING_NOTE if column == "partition and pruning" else _PART_NOTE
                yield Row(full, value, ours, "%", How.COUNTED, note=note, neutral=0.0)
            else:
                yield seconds_row(full, value, counted[column]["seconds"], _LIMIT)


_PART_NOTE = "the part of some 40 operators that has the peak; the published part is not known"
_PRUNING_NOTE = (
    f"{_PART_NOTE}; tensors that stay to the end of the part have no variables here, pruned or not"
)


def part_program(
    network: str, options: list[str], fusion: bool, pruning: bool, limit: float
) -> dict[str, float]:
    """Variables of the part in which a network has its peak, and seconds to solve its program."""
    whole = problem_of(network, options)
    graph = unfused(whole)
    start = reverse_post_order(graph)
    ends = partition(graph, -(-len(graph) // PART), start)
    lows = [0, *ends][: len(ends)]
    peaks = [
        graph.peak_from(low, [n for n in start if (high & ~low) >> n & 1])
        for low, high in zip(lows, ends, strict=True)
    ]
    worst = max(range(len(peaks)), key=peaks.__getitem__)
    part = part_of(whole, lows[worst], ends[worst])
    begin = time.perf_counter()
    small = fuse(part, math.inf) if fusion else unfused(part)
    order, end = reverse_post_order(small), small.all_nodes
    program = integer_program(small, 0, end, 0, small.peak_from(0, order), pruning)
    solve_order(small, 0, end, order, begin + limit, options=SchedulerOptions(pruning=pruning))
    return {"variables": program.variables, "seconds": time.perf_counter() - begin}


def partitions(published: Mapping[str, Any], steps: Steps) -> Iterator[Row]:
    """The optimum, and what a naive and a memory-aware partition leave of it (table V)."""
    for label, values in published.items():
        network, options = NETWORKS[label]
        best = steps.once(peak, network, options, "optimal", _WHOLE)["peak"]
        ours = {
            "optimal": best,
            "naive partition": steps.once(divided, network, options, None, False, _WHOLE)["peak"],
            "heuristic partition": steps.once(peak, network, options, "fusion-ilp", _WHOLE)["peak"],
        }
        for name, value in values.items():
            above, theirs = ours[name] / best - 1, value / values["optimal"] - 1
            lost = f"{above:.1%} above the optimum, published {theirs:.1%}"
            lost = "" if name == "optimal" else lost
            yield Row(
                f"{label}, {name}",
                value,
                ours[name] / 1024,
                "KB",
                How.COUNTED,
                command=command(network, options, *_OPTIONS[name]),
                note="; ".join(filter(None, (lost, why_other(label)))),
            )


_OPTIONS: Mapping[str, tuple[str, ...]] = {
    "optimal": ("--scheduler", "optimal"),
    "naive partition": ("--scheduler", "fusion-ilp", "--naive-partition"),
    "heuristic partition": ("--scheduler", "fusion-ilp"),
}


def numbers_of_parts(published: Mapping[str, Any], steps: Steps) -> Iterator[Row]:
    """Peak and seconds by the number of parts (table VI)."""
    for label, values in published.items():
        network, options = NETWORKS[label]
        for name, value in values.items():
            parts, _, quantity = name.partition(", ")
            number = int(parts.split()[0])
            found = steps.once(divided, network, options, number, True, _LIMIT)
            if quantity == "s":
                yield seconds_row(f"{label}, {name}", value, found["seconds"], _LIMIT)
                continue
            yield Row(
                f"{label}, {name}",
                value,
                found["peak"] / 1024,
                "KB",
                How.COUNTED,
                command=command(network, options, "--scheduler", "fusion-ilp", "--parts", parts[0]),
                note="" if found["seconds"] < _LIMIT else f"the best after {_LIMIT:.0f} s",
            )


def divided(
    network: str, options: list[str], parts: int | None, memory_aware: bool, limit: float
) -> dict[str, float]:
    """The peak of the method on a network in so many parts, in bytes, and its seconds."""
    scheduled = schedule_fusion_ilp(
        problem_of(network, options),
        limit,
        replace(scheduler_options_of(options), parts=parts, memory_aware=memory_aware),
    )
    return {"peak": scheduled.peak, "seconds": scheduled.seconds}
