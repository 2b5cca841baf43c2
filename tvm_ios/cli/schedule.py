"""``tvm-ios schedule``: search only."""

from __future__ import annotations

import io
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.table import Table

from tvm_ios.byte_sizes import kib
from tvm_ios.cli.completion import complete_cost, complete_policy
from tvm_ios.cli.front import print_front
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
    GroupsAStage,
    Lanes,
    MaxBlock,
    MaxMeasurements,
    Measure,
    MeasureMode,
    MemoryBudget,
    OperatorsAGroup,
    TimeLimit,
    bytes_of,
    measuring_options,
    require_known,
)
from tvm_ios.errors import UserError
from tvm_ios.files import require_writable, write_atomically
from tvm_ios.graph import OpGraph
from tvm_ios.schedule import Schedule, Strategy

if TYPE_CHECKING:
    from relay_passes.measured import MeasuredSearch, MeasuringOptions
    from tvm_ios.cost.analytic import AnalyticCost
    from tvm_ios.search.endings import Pruning
    from tvm_ios.search.lazy import LazyStatistics
    from tvm_ios.search.memory_front import FrontPoint
    from tvm_ios.search.network import SearchStatistics


@reports_errors
def schedule(
    model: Model,
    policy: Annotated[
        str,
        typer.Option(
            help="sequential, greedy, memory, ios-merge, ios-parallel, ios-both, rammer or "
            "ios-holistic.",
            autocompletion=complete_policy,
        ),
    ] = "ios-both",
    cost: Annotated[
        str,
        typer.Option(
            help="measured, a log (.jsonl) of measurements, or a device: v100, cpu.",
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
                lanes, measure, max_measurements, time_limit, r, s, max_block
            )
            searching = _searching(model, random_weights, fixed, options, update)
            graph = searching.prepared.units
            if pareto:
                return print_front(graph, searching.pareto(policy), policy, cost, as_json)
            made, search = _measured(searching, policy, log, budget)
        else:
            graph = load_units(model, random_weights=random_weights, shapes=fixed)
            analytic = _Analytic(graph, policy, cost, Pruning(r, s), max_block, update)
            if pareto:
                return print_front(graph, analytic.front(), policy, cost, as_json)
            made, search = analytic.schedule(reuse, budget)
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


@dataclass(frozen=True)
class _Analytic:
    """A search on the description of a device."""

    graph: OpGraph
    policy: str
    device: str
    pruning: Pruning
    max_block: int
    update: Any

    def schedule(self, reuse: bool, memory_budget: int | None) -> tuple[Schedule, dict[str, Any]]:
        from tvm_ios.search.baselines import baseline_schedule
        from tvm_ios.search.network import search_graph
        from tvm_ios.search.rammer import RAMMER, simulated_schedule

        cost, graph = self._cost(), self.graph
        if (made := baseline_schedule(self.policy, graph, cost, device=self.device)) is not None:
            return made, _statistics(None, 0)
        if self.policy == RAMMER:
            return simulated_schedule(graph, cost), _statistics(None, 0)
        arguments, names = self._arguments(cost)
        made, took = search_graph(*arguments, **names, reuse=reuse, memory_budget=memory_budget)
        return made, _statistics(took, 0)

    def front(self) -> tuple[FrontPoint, ...]:
        from tvm_ios.search.memory_front import pareto_front

        arguments, names = self._arguments(self._cost())
        return pareto_front(*arguments, **names)

    def _cost(self) -> AnalyticCost:
        from tvm_ios.cost.analytic import AnalyticCost
        from tvm_ios.devices import load_device

        return AnalyticCost(load_device(self.device))

    def _arguments(self, cost: AnalyticCost) -> tuple[tuple[Any, ...], dict[str, Any]]:
        from tvm_ios.blocks import cut_blocks
        from tvm_ios.merge_rule import mergeable

        graph = self.graph
        blocks = cut_blocks(graph, self.max_block)

        def progress(done: int, total: int) -> None:
            self.update("searching blocks", done, total)

        return (graph, blocks, cost, self.policy, self.pruning, mergeable), {
            "progress": progress,
            "device": self.device,
            "batch": graph.batch,
        }


def _searching(
    model: str,
    random_weights: int | None,
    shapes: dict[str, tuple[int, ...]],
    options: MeasuringOptions,
    update: Any,
) -> MeasuredSearch:
    from relay_passes.load import load_model
    from relay_passes.measured import MeasuredSearch
    from relay_passes.prepare import prepare

    loaded = load_model(model, random_weights=random_weights, shapes=shapes)
    return MeasuredSearch(prepare(loaded.module, loaded.name), options, update)


def _measured(
    searching: MeasuredSearch, policy: str, log: Path | None, memory_budget: int | None
) -> tuple[Schedule, dict[str, Any]]:
    if log is not None:
        made, took = searching.recorded(policy, log, memory_budget)
    elif (baseline := searching.measured_baseline(policy)) is not None:
        made, took = baseline, None
    else:
        made, took = searching.schedule(policy, memory_budget)
    return made, _statistics(took, searching.timer.stages_measured)


def _statistics(
    took: SearchStatistics | LazyStatistics | None, stages_measured: int
) -> dict[str, Any]:
    return {
        "seconds": 0.0 if took is None else took.seconds,
        "states": 0 if took is None else took.states,
        "transitions": 0 if took is None else took.transitions,
        "stages_measured": stages_measured,
    }


def _json(graph: OpGraph, made: Schedule, cost: str, search: dict[str, Any]) -> dict[str, Any]:
    from tvm_ios.search.stage_memory import stages_peak

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
        "memory_bytes": stages_peak(graph, made.stages),
    }


def _print(graph: OpGraph, made: Schedule, search: dict[str, Any]) -> None:
    from tvm_ios.search.stage_memory import stages_peak

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
        f"in {search['seconds']:.2f} s, measured {search['stages_measured']} stages; tensors "
        f"between units take at most {kib(stages_peak(graph, made.stages))} KiB"
    )
