"""``tvm-ios schedule``: search only."""

from __future__ import annotations

import io
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.markup import escape
from rich.table import Table

from tvm_ios.byte_sizes import kib
from tvm_ios.cli.completion import complete_cost, complete_policy
from tvm_ios.cli.front import print_front
from tvm_ios.cli.output import (
    Batch,
    Debug,
    Json,
    Model,
    RandomWeights,
    Shapes,
    console,
    input_shapes,
    left_out_text,
    print_json,
    progress_bars,
    reports_errors,
)
from tvm_ios.cli.search_options import (
    Arch,
    Dialect,
    DialectOption,
    GroupsAStage,
    Lanes,
    MaxBlock,
    MaxMeasurements,
    Measure,
    MeasureMode,
    MemoryBudget,
    OperatorsAGroup,
    Target,
    TargetKind,
    TimeLimit,
    bytes_of,
    measuring_options,
    require_known,
)
from tvm_ios.errors import UserError
from tvm_ios.files import require_writable, write_atomically
from tvm_ios.graph import OpGraph
from tvm_ios.instance_plan import InstancePlan
from tvm_ios.schedule import Schedule, Strategy

if TYPE_CHECKING:
    from relay_passes.measuring_options import MeasuringOptions
    from relay_passes.module_search import ModuleSearch
    from tvm_ios.search.lazy import LazyStatistics
    from tvm_ios.search.network import SearchStatistics


@reports_errors
def schedule(
    model: Model,
    policy: Annotated[
        str,
        typer.Option(
            help="sequential, greedy, memory, ios-merge, ios-parallel, ios-both, rammer, "
            "ios-holistic, and measured: graphturbo, holistic.",
            autocompletion=complete_policy,
        ),
    ] = "ios-both",
    cost: Annotated[
        str,
        typer.Option(
            help="measured, a log (.jsonl; with --arch of any machine), or a device: v100, cpu.",
            autocompletion=complete_cost,
        ),
    ] = "v100",
    output: Annotated[
        Path | None, typer.Option("-o", "--output", help="Write the schedule as JSON.")
    ] = None,
    plot: Annotated[
        Path | None, typer.Option(help="Draw the schedule into this .svg or .png.")
    ] = None,
    memory_budget: MemoryBudget = None,
    pareto: Annotated[
        bool, typer.Option("--pareto", help="Show all trades of latency for memory.")
    ] = False,
    shape: Shapes = None,
    batch: Batch = None,
    dialect: DialectOption = Dialect.relax,
    target: Target = TargetKind.llvm,
    arch: Arch = None,
    lanes: Lanes = None,
    random_weights: RandomWeights = None,
    measure: Measure = MeasureMode.lazy,
    max_measurements: MaxMeasurements = 400,
    time_limit: TimeLimit = None,
    r: OperatorsAGroup = 3,
    s: GroupsAStage = 8,
    max_block: MaxBlock = 40,
    reuse: Annotated[bool, typer.Option(help="Search equal blocks once.")] = True,
    as_json: Json = False,
    debug: Debug = False,
) -> None:
    """Find a schedule, without building anything (except for --cost measured).

    For a described device the search needs neither TVM nor a compiler; measured, the stages that
    may matter are compiled and timed on this machine. What is found can be drawn and saved.
    Policies of IOS keep to a memory budget, or show with --pareto what memory costs in time.
    """
    from tvm_ios.api import load_units
    from tvm_ios.search.described import described_front, described_schedule
    from tvm_ios.search.endings import Pruning
    from tvm_ios.search.policies import POLICIES

    budget = bytes_of(memory_budget, "--memory-budget")
    if budget is not None or pareto:
        require_known([policy], POLICIES, "--policy")
    if pareto and (budget is not None or output is not None or plot is not None):
        raise typer.BadParameter(
            "it shows many schedules: choose one with --memory-budget, which -o and --plot then "
            "write",
            param_hint="'--pareto'",
        )

    if plot is not None and plot.suffix not in (".svg", ".png"):
        raise UserError(f"{plot} cannot be drawn: its name must end in .svg or .png")
    for path in (output, plot):
        if path is not None:
            require_writable(path)
    fixed = input_shapes(shape)
    log = Path(cost) if Path(cost).suffix == ".jsonl" else None
    if pareto and log is not None:
        raise typer.BadParameter(
            "it needs --cost measured, which reads its log, or a device", param_hint="'--pareto'"
        )
    with progress_bars() as update:
        if cost == "measured" or log is not None:
            options = measuring_options(
                lanes,
                measure,
                max_measurements,
                time_limit,
                r,
                s,
                max_block,
                target=target,
                arch=arch,
                dialect=dialect,
                # A log's times may be another machine's.
                runs_here=log is None,
            )
            searching = _searching(model, random_weights, fixed, batch, options, dialect, update)
            graph = searching.prepared.units
            if pareto:
                points = searching.pareto(policy)
                searching.end_run()
                return print_front(graph, points, policy, cost, as_json)
            made, search = _measured(searching, policy, log, budget)
        else:
            graph = load_units(
                model,
                random_weights=random_weights,
                shapes=fixed,
                batch=batch,
                dialect=dialect.value,
            )
            limits = (policy, cost, Pruning(r, s), max_block)

            def progress(done: int, total: int) -> None:
                update("searching blocks", done, total)

            if pareto:
                front = described_front(graph, *limits, progress=progress)
                return print_front(graph, front, policy, cost, as_json)
            made, took = described_schedule(
                graph, *limits, reuse=reuse, memory_budget=budget, progress=progress
            )
            search = _statistics(took, 0)
    made.validate(graph)
    if output is not None:
        made.save(output, graph)
    if plot is not None:
        from tvm_ios.plot import plot_schedule

        drawn = io.BytesIO()
        plot_schedule(graph, made).figure.savefig(drawn, format=plot.suffix[1:])
        write_atomically(plot, drawn.getvalue())
    if as_json:
        print_json(_json(graph, made, cost, search))
    else:
        _print(graph, made, search)


def _searching(
    model: str,
    random_weights: int | None,
    shapes: dict[str, tuple[int, ...]],
    batch: int | None,
    options: MeasuringOptions,
    dialect: Dialect,
    update: Any,
) -> ModuleSearch:
    from relay_passes.load import load_model
    from relay_passes.prepare import prepare

    loaded = load_model(
        model, random_weights=random_weights, shapes=shapes, batch=batch, dialect=dialect.value
    )
    search = loaded.dialect.measured_search()
    return search(prepare(loaded.module, loaded.name), options, update)


def _measured(
    searching: ModuleSearch, policy: str, log: Path | None, memory_budget: int | None
) -> tuple[Schedule, dict[str, Any]]:
    if log is not None:
        made, took = searching.recorded(policy, log, memory_budget)
    elif (baseline := searching.measured_baseline(policy)) is not None:
        made, took = baseline, None
    else:
        made, took = searching.schedule(policy, memory_budget)
    if log is None:
        searching.end_run()
    return made, _statistics(took, searching.timer.stages_measured)


def _statistics(
    took: SearchStatistics | LazyStatistics | None, stages_measured: int
) -> dict[str, Any]:
    from tvm_ios.search.lazy import LazyStatistics

    return {
        "seconds": 0.0 if took is None else took.seconds,
        "states": 0 if took is None else took.states,
        "transitions": 0 if took is None else took.transitions,
        "stages_measured": stages_measured,
        **({"left_out": took.left_out} if isinstance(took, LazyStatistics) else {}),
    }


def _json(graph: OpGraph, made: Schedule, cost: str, search: dict[str, Any]) -> dict[str, Any]:
    from tvm_ios.search.stage_memory import stages_peak

    latencies: tuple[float | None, ...] = made.latencies or (None,) * len(made.stages)
    instances = {} if made.instances is None else {"instances": made.instances.to_json()}
    return {
        "model": graph.name,
        "policy": made.policy,
        "cost": cost,
        "latency_ms": made.latency * 1e3,
        "stages": [
            {
                "strategy": stage.strategy.value,
                "groups": [[graph.operators[u].name for u in group] for group in stage.groups],
                "latency_ms": None if seconds is None else seconds * 1e3,
            }
            for stage, seconds in zip(made.stages, latencies, strict=True)
        ],
        "search": search,
        "memory_bytes": stages_peak(graph, made.stages),
        **instances,
    }


def _print(graph: OpGraph, made: Schedule, search: dict[str, Any]) -> None:
    from tvm_ios.search.stage_memory import stages_peak

    table = Table(
        "stage", "strategy", "groups", "latency", title=f"{escape(graph.name)}: {made.policy}"
    )
    latencies = made.latencies or (float("nan"),) * len(made.stages)
    for number, (stage, seconds) in enumerate(zip(made.stages, latencies, strict=True)):
        between = ", " if stage.strategy is Strategy.CO_SCHEDULE else " → "
        groups = " | ".join(
            between.join(graph.operators[unit].name for unit in group) for group in stage.groups
        )
        latency = f"{seconds * 1e6:.1f} µs" if made.latencies else ""
        table.add_row(str(number), stage.strategy.value, escape(groups), latency)
    out = console()
    out.print(table)
    if made.instances is not None:
        out.print(_split(graph, made.instances))
    if left_out := search.get("left_out"):
        out.print(left_out_text(left_out))
    expected = f", {made.latency * 1e3:.3f} ms expected" if made.latencies else ""
    out.print(
        f"{len(made.stages)} stages{expected}; searched "
        f"{search['states']:,} states and {search['transitions']:,} transitions "
        f"in {search['seconds']:.2f} s, measured {search['stages_measured']} stages; tensors "
        f"between units take at most {kib(stages_peak(graph, made.stages))} KiB"
    )


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
