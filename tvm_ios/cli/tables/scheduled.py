"""A schedule that was found, as a table or JSON."""

from __future__ import annotations

from typing import Any

from rich.markup import escape
from rich.table import Table

from tvm_ios.cli.frame.output import console, left_out_text, print_json
from tvm_ios.cli.tables.given import GivenBeside
from tvm_ios.files.byte_sizes import kib
from tvm_ios.graph.op_graph import OpGraph
from tvm_ios.graphturbo.instance_memory import schedule_peak
from tvm_ios.policies.greedy import greedy_schedule
from tvm_ios.policies.policy import Problem
from tvm_ios.schedule.instance_plan import InstancePlan
from tvm_ios.schedule.named_kernels import kernels_text, units_by_kernel
from tvm_ios.schedule.schedule import Schedule
from tvm_ios.schedule.stage import Strategy


def print_schedule(
    problem: Problem,
    schedule: Schedule,
    cost: str,
    search: dict[str, Any],
    tail: str | None,
    as_json: bool,
    beside: GivenBeside | None = None,
) -> None:
    """Print a schedule, the work of its search, and a file's schedule beside it if given."""
    graph = problem.units
    peak = schedule_peak(graph, schedule, problem.operators)
    if as_json:
        given = {} if beside is None else {"given": beside.to_json(schedule)}
        print_json({**_json(graph, schedule, cost, search, peak), "tail": tail, **given})
    else:
        _print(graph, schedule, search, peak)
        if schedule.policy.startswith("ios") and _is_greedy(problem, schedule):
            console().print("no other stages are faster than greedy's, so these are kept")
        if beside is not None:
            console().print(escape(beside.text(schedule)))


def _json(
    graph: OpGraph, schedule: Schedule, cost: str, search: dict[str, Any], peak: int
) -> dict[str, Any]:
    instances = {} if schedule.instances is None else {"instances": schedule.instances.to_json()}
    return {
        "model": graph.name,
        "policy": schedule.policy,
        "cost": cost,
        "latency_ms": schedule.latency * 1e3,
        "stages": [
            {
                "strategy": stage.strategy.value,
                "groups": [[graph.operators[u].name for u in group] for group in stage.groups],
                "latency_ms": None if stage.latency is None else stage.latency * 1e3,
            }
            for stage in schedule.stages
        ],
        "search": search,
        "memory_bytes": peak,
        "named_kernels": units_by_kernel(schedule.kernels),
        **instances,
    }


def _print(graph: OpGraph, schedule: Schedule, search: dict[str, Any], peak: int) -> None:
    table = Table(
        "stage", "strategy", "groups", "latency", title=f"{escape(graph.name)}: {schedule.policy}"
    )
    for number, stage in enumerate(schedule.stages):
        between = ", " if stage.strategy is Strategy.CO_SCHEDULE else " → "
        groups = " | ".join(
            between.join(graph.operators[unit].name for unit in group) for group in stage.groups
        )
        latency = "" if stage.latency is None else f"{stage.latency * 1e6:.1f} µs"
        table.add_row(str(number), stage.strategy.value, escape(groups), latency)
    out = console()
    out.print(table)
    if schedule.instances is not None:
        out.print(_split(graph, schedule.instances))
    if left_out := search.get("left_out"):
        out.print(left_out_text(left_out))
    if schedule.kernels:
        out.print(f"kernels of a name: {kernels_text(units_by_kernel(schedule.kernels))}")
    expected = f", {schedule.latency * 1e3:.3f} ms expected" if schedule.latencies else ""
    out.print(
        f"{len(schedule.stages)} stages{expected}; searched "
        f"{search['states']:,} states and {search['transitions']:,} transitions "
        f"in {search['seconds']:.2f} s, measured {search['stages_measured']} stages; tensors "
        f"between units take at most {kib(peak)} KiB"
    )


def _is_greedy(problem: Problem, schedule: Schedule) -> bool:
    """Return whether a schedule has the stages of the greedy policy, and some are not one unit."""
    greedy = greedy_schedule(problem.units, problem.blocks).stages
    ours = [(stage.strategy, sorted(stage.groups)) for stage in schedule.stages]
    wide = any(len(stage.units) > 1 for stage in greedy)
    return wide and ours == [(stage.strategy, sorted(stage.groups)) for stage in greedy]


def _split(graph: OpGraph, plan: InstancePlan) -> Table:
    table = Table("sub-graph", "units", "instances", "on lanes", title="run in instances")
    for number, subgraph in enumerate(plan.subgraphs):
        lanes = sorted({p.lane for p in plan.order if p.subgraph == number and p.lane is not None})
        table.add_row(
            str(number),
            escape(" → ".join(graph.operators[unit].name for unit in subgraph.units)),
            str(subgraph.factor),
            ", ".join(map(str, lanes)) or "all",
        )
    return table
