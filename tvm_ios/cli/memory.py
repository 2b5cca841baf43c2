"""``tvm-ios memory``: the peak memory of each memory scheduler."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.markup import escape
from rich.table import Table

from tvm_ios.cli.completion import complete_memory_schedulers
from tvm_ios.cli.help_pages import HelpPage
from tvm_ios.cli.output import (
    Batch,
    Debug,
    Json,
    Model,
    Shapes,
    console,
    input_shapes,
    print_json,
    progress_bars,
    reports_errors,
    tell_tail,
)
from tvm_ios.cli.search_options import bytes_of, names_in, require_known
from tvm_ios.files.byte_sizes import kib

if TYPE_CHECKING:
    from tvm_ios.graph.op_graph import OpGraph
    from tvm_ios.memory.comparison import ScheduledMemory

_BARS = " ▁▂▃▄▅▆▇█"


PAGE = HelpPage(
    (
        "tvm-ios memory darts",
        "tvm-ios memory hrnet_w32 --scheduler rpo,optimal --in-place --plot memory.svg",
        "tvm-ios memory model.onnx --budget 4M",
    ),
    "`tvm-ios schedule --memory-budget` finds the fastest schedule that fits.",
)


@reports_errors
def memory(
    model: Model,
    scheduler: Annotated[
        str | None,
        typer.Option(
            metavar="NAMES",
            help="Schedulers to run, between commas, instead of all.",
            autocompletion=complete_memory_schedulers,
        ),
    ] = None,
    units: Annotated[
        bool, typer.Option("--units", help="Order the units that run instead of the operators.")
    ] = False,
    in_place: Annotated[
        bool,
        typer.Option("--in-place", help="Element-wise operators write over an input read last."),
    ] = False,
    zero_copy_concat: Annotated[
        bool,
        typer.Option("--zero-copy-concat", help="What is concatenated lies in the result."),
    ] = False,
    rewrite: Annotated[
        bool,
        typer.Option("--rewrite", help="First split what convolves a concatenation (SERENITY)."),
    ] = False,
    budget: Annotated[
        str | None,
        typer.Option(metavar="BYTES", help="Fail unless an order fits: 800000, 512K, 1.5M."),
    ] = None,
    time_limit: Annotated[
        float, typer.Option(min=0.0, help="Seconds of each scheduler, at most.")
    ] = 30.0,
    plot: Annotated[
        Path | None, typer.Option(help="Draw the footprints over time into this .svg or .png.")
    ] = None,
    shape: Shapes = None,
    batch: Batch = None,
    as_json: Json = False,
    debug: Debug = False,
) -> None:
    """Order the operators of a model for the least peak memory.

    The peak is of all tensors that live at once, inputs and outputs among them, weights not; the
    arena is one block of memory with a place for each. Where the proof says yes, no order has a
    smaller peak. Below the table the footprints over time, of reverse post-order and the best.
    """
    from tvm_ios.api import operators_and_tail, units_and_tail
    from tvm_ios.memory.comparison import best_of, compare_schedulers
    from tvm_ios.memory.fitting import require_fit
    from tvm_ios.memory.footprint import Counting
    from tvm_ios.memory.operators import with_biases
    from tvm_ios.memory.published.identity_rewriting import rewrite_concatenations
    from tvm_ios.memory.schedulers import MEMORY_SCHEDULERS
    from tvm_ios.models.source import ModelSource
    from tvm_ios.plot import require_picture

    names = tuple(MEMORY_SCHEDULERS) if scheduler is None else names_in(scheduler)
    require_known(names, MEMORY_SCHEDULERS, "--scheduler")
    if not names:
        raise typer.BadParameter("it names none", param_hint="'--scheduler'")
    allowed = bytes_of(budget, "--budget")
    if plot is not None:
        require_picture(plot)
    if units and rewrite:
        raise typer.BadParameter(
            "units run as they are: leave out --units", param_hint="'--rewrite'"
        )
    source = ModelSource(model, shapes=input_shapes(shape), batch=batch)
    if units:
        graph, end = units_and_tail(source)
    else:
        graph, end = operators_and_tail(source)
        graph = with_biases(rewrite_concatenations(graph) if rewrite else graph)
    tail = end and end.sentence
    tell_tail(tail)
    with progress_bars() as update:
        rows = compare_schedulers(
            graph,
            Counting(in_place, zero_copy_concat),
            names,
            time_limit,
            update,
        )
    best = best_of(rows)
    require_fit(graph.name, best.arena, max(row.ordered.bound for row in rows), allowed)
    if plot is not None:
        _plot(rows, best, allowed, plot)
    if as_json:
        print_json({**_json(graph, rows, best), "tail": tail})
    else:
        _print(graph, rows, best, allowed)


def _curves(rows: tuple[ScheduledMemory, ...], best: ScheduledMemory) -> list[ScheduledMemory]:
    """What a picture shows: the first scheduler and the best, once if they are one."""
    return [rows[0]] if best is rows[0] else [rows[0], best]


def _plot(
    rows: tuple[ScheduledMemory, ...], best: ScheduledMemory, budget: int | None, path: Path
) -> None:
    from tvm_ios.plot import plot_footprints, save_picture

    curves = {row.name: row.footprints.stable for row in _curves(rows, best)}
    save_picture(plot_footprints(curves, budget=budget), path)


def _json(
    graph: OpGraph, rows: tuple[ScheduledMemory, ...], best: ScheduledMemory
) -> dict[str, Any]:
    return {
        "model": graph.name,
        "schedulers": [
            {
                "name": row.name,
                "peak_kib": row.ordered.peak / 1024,
                "arena_kib": row.arena.plan.nbytes / 1024,
                "seconds": row.ordered.seconds,
                "operators": row.ordered.operators,
                "fused_operators": row.ordered.fused_operators,
                "proof": row.ordered.proven,
                "bound_kib": row.ordered.bound / 1024,
            }
            for row in rows
        ],
        "best": best.name,
        "order": [graph.operators[op].name for op in best.ordered.order],
    }


def _print(
    graph: OpGraph, rows: tuple[ScheduledMemory, ...], best: ScheduledMemory, budget: int | None
) -> None:
    table = Table(
        "scheduler", "peak KiB", "arena KiB", "seconds", "operators", "fused", "proof",
        title=escape(graph.name),
    )  # fmt: skip
    for column in table.columns[1:-1]:
        column.justify = "right"
    for row in rows:
        ordered = row.ordered
        table.add_row(
            row.name,
            kib(ordered.peak),
            kib(row.arena.plan.nbytes),
            f"{ordered.seconds:.2f}",
            str(ordered.operators),
            str(ordered.fused_operators),
            "optimal" if ordered.proven else f"at least {kib(ordered.bound)}",
            style="bold green" if row is best else "",
        )
    out = console()
    out.print(table)
    width = min(out.width - 14, 100)
    curves = _curves(rows, best)
    top = max(row.ordered.peak for row in curves)
    for row in curves:
        out.print(
            f"{row.name:>12} {_sparkline(row.footprints.stable, top, width)}", highlight=False
        )
    if budget is not None:
        spare = budget - best.arena.plan.nbytes
        out.print(f"{best.name} fits into {kib(budget)} KiB and leaves {kib(spare)}")


def _sparkline(values: tuple[int, ...], top: int, width: int) -> str:
    """Bars of the largest values of ``width`` spans of time."""
    columns = min(width, len(values))
    spans = [
        values[len(values) * i // columns : len(values) * (i + 1) // columns]
        for i in range(columns)
    ]
    return "".join(_BARS[-(-max(span) * (len(_BARS) - 1) // max(top, 1))] for span in spans)
