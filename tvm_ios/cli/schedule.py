"""``tvm-ios schedule``: search only."""

from __future__ import annotations

import io
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.table import Table

from tvm_ios.cli.completion import complete_cost, complete_policy
from tvm_ios.cli.output import (
    Debug,
    Json,
    Model,
    RandomWeights,
    Shapes,
    console,
    input_shapes,
    print_json,
    progress_bars,
    reports_errors,
)
from tvm_ios.cli.search_options import (
    Arch,
    GroupsAStage,
    Lanes,
    MaxBlock,
    MaxMeasurements,
    Measure,
    MeasureMode,
    OperatorsAGroup,
    Target,
    TargetKind,
    TimeLimit,
    measuring_options,
)
from tvm_ios.errors import UserError
from tvm_ios.files import require_writable, write_atomically
from tvm_ios.graph import OpGraph
from tvm_ios.schedule import Schedule, Strategy

if TYPE_CHECKING:
    from relay_passes.measured import MeasuringOptions


@reports_errors
def schedule(
    model: Model,
    policy: Annotated[
        str,
        typer.Option(
            help="sequential, greedy, ios-merge, ios-parallel, ios-both, rammer or ios-holistic.",
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
    shape: Shapes = None,
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
    """
    from tvm_ios.api import load_units
    from tvm_ios.search.endings import Pruning

    if plot is not None and plot.suffix not in (".svg", ".png"):
        raise UserError(f"{plot} cannot be drawn: its name must end in .svg or .png")
    for path in (output, plot):
        if path is not None:
            require_writable(path)
    fixed = input_shapes(shape)
    with progress_bars() as update:
        log = Path(cost) if Path(cost).suffix == ".jsonl" else None
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
            )
            found = _measured(model, policy, log, random_weights, fixed, options, update)
        else:
            graph = load_units(model, random_weights=random_weights, shapes=fixed)
            found = _analytic(graph, policy, cost, Pruning(r, s), max_block, reuse, update)
    graph, made, search = found
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


def _analytic(
    graph: OpGraph,
    policy: str,
    device: str,
    pruning: Any,
    max_block: int,
    reuse: bool,
    update: Any,
) -> tuple[OpGraph, Schedule, dict[str, Any]]:
    from tvm_ios.blocks import cut_blocks
    from tvm_ios.cost.analytic import AnalyticCost
    from tvm_ios.devices import load_device
    from tvm_ios.merge_rule import mergeable
    from tvm_ios.search.baselines import baseline_schedule
    from tvm_ios.search.network import search_graph
    from tvm_ios.search.rammer import RAMMER, simulated_schedule

    cost = AnalyticCost(load_device(device))
    empty = {"seconds": 0.0, "states": 0, "transitions": 0, "stages_measured": 0}
    if (baseline := baseline_schedule(policy, graph, cost, device=device)) is not None:
        return graph, baseline, empty
    if policy == RAMMER:
        return graph, simulated_schedule(graph, cost), empty
    made, took = search_graph(
        graph,
        cut_blocks(graph, max_block),
        cost,
        policy,
        pruning,
        mergeable,
        reuse=reuse,
        progress=lambda done, total: update("searching blocks", done, total),
        device=device,
        batch=graph.batch,
    )
    search = {
        "seconds": took.seconds,
        "states": took.states,
        "transitions": took.transitions,
        "stages_measured": 0,
    }
    return graph, made, search


def _measured(
    model: str,
    policy: str,
    log: Path | None,
    random_weights: int | None,
    shapes: dict[str, tuple[int, ...]],
    options: MeasuringOptions,
    update: Any,
) -> tuple[OpGraph, Schedule, dict[str, Any]]:
    from relay_passes.load import load_model
    from relay_passes.measured import MeasuredSearch
    from relay_passes.prepare import prepare

    loaded = load_model(model, random_weights=random_weights, shapes=shapes)
    prepared = prepare(loaded.module, loaded.name)
    searching = MeasuredSearch(prepared, options, update)
    if log is not None:
        made, took = searching.recorded(policy, log)
    elif (baseline := searching.measured_baseline(policy)) is not None:
        made, took = baseline, None
    else:
        made, took = searching.schedule(policy)
    search = {
        "seconds": 0.0 if took is None else took.seconds,
        "states": 0 if took is None else took.states,
        "transitions": 0 if took is None else took.transitions,
        "stages_measured": searching.timer.stages_measured,
    }
    return prepared.units, made, search


def _json(graph: OpGraph, made: Schedule, cost: str, search: dict[str, Any]) -> dict[str, Any]:
    latencies: tuple[float | None, ...] = made.latencies or (None,) * len(made.stages)
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
    }


def _print(graph: OpGraph, made: Schedule, search: dict[str, Any]) -> None:
    table = Table("stage", "strategy", "groups", "latency", title=f"{graph.name}: {made.policy}")
    latencies = made.latencies or (float("nan"),) * len(made.stages)
    for number, (stage, seconds) in enumerate(zip(made.stages, latencies, strict=True)):
        between = ", " if stage.strategy is Strategy.CO_SCHEDULE else " → "
        groups = " | ".join(
            between.join(graph.operators[unit].name for unit in group) for group in stage.groups
        )
        table.add_row(str(number), stage.strategy.value, groups, f"{seconds * 1e6:.1f} µs")
    out = console()
    out.print(table)
    out.print(
        f"{len(made.stages)} stages, {made.latency * 1e3:.3f} ms expected; searched "
        f"{search['states']:,} states and {search['transitions']:,} transitions "
        f"in {search['seconds']:.2f} s, measured {search['stages_measured']} stages"
    )
