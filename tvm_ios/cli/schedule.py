"""``tvm-ios schedule``: search only."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tvm_ios.cli.completion import complete_cost, complete_policy
from tvm_ios.cli.front import print_front
from tvm_ios.cli.output import (
    Batch,
    Debug,
    Json,
    Model,
    RandomWeights,
    Shapes,
    input_shapes,
    progress_bars,
    reports_errors,
)
from tvm_ios.cli.scheduled import print_schedule
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
from tvm_ios.files.atomic import require_writable
from tvm_ios.schedule.schedule import Schedule

if TYPE_CHECKING:
    from relay_passes.measuring_options import MeasuringOptions
    from relay_passes.module_search import ModuleSearch
    from tvm_ios.ios.lazy import LazyStatistics
    from tvm_ios.ios.network import SearchStatistics
    from tvm_ios.models.source import ModelSource


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
    from tvm_ios.ios.endings import Pruning
    from tvm_ios.ios.strategies import POLICIES
    from tvm_ios.models.source import ModelSource
    from tvm_ios.plot import plot_schedule, require_picture, save_picture
    from tvm_ios.policies.described import described_front, described_schedule

    budget = bytes_of(memory_budget, "--memory-budget")
    if budget is not None or pareto:
        require_known([policy], POLICIES, "--policy")
    if pareto and (budget is not None or output is not None or plot is not None):
        raise typer.BadParameter(
            "it shows many schedules: choose one with --memory-budget, which -o and --plot then "
            "write",
            param_hint="'--pareto'",
        )
    if plot is not None:
        require_picture(plot)
    if output is not None:
        require_writable(output)
    source = ModelSource(model, random_weights, input_shapes(shape), batch, dialect.value)
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
            searching = _searching(source, options, update)
            graph = searching.prepared.units
            if pareto:
                points = searching.pareto(policy)
                searching.end_run()
                return print_front(graph, points, policy, cost, as_json)
            made, search = _measured(searching, policy, log, budget)
        else:
            graph = load_units(source)
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
        save_picture(plot_schedule(graph, made), plot)
    print_schedule(graph, made, cost, search, as_json)


def _searching(source: ModelSource, options: MeasuringOptions, update: Any) -> ModuleSearch:
    from relay_passes.load import load_model
    from relay_passes.prepare import prepare

    loaded = load_model(source)
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
    from tvm_ios.ios.lazy import LazyStatistics

    return {
        "seconds": 0.0 if took is None else took.seconds,
        "states": 0 if took is None else took.states,
        "transitions": 0 if took is None else took.transitions,
        "stages_measured": stages_measured,
        **({"left_out": took.left_out} if isinstance(took, LazyStatistics) else {}),
    }
