"""``tvm-ios memory``: the peak memory of each memory scheduler."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from rich.markup import escape
from rich.table import Table

from tvm_ios.cli.frame import panels
from tvm_ios.cli.frame.help_pages import HelpPage
from tvm_ios.cli.frame.output import (
    Reporting,
    console,
    print_json,
    progress_bars,
    reports_errors,
    tell_tail,
)
from tvm_ios.cli.options.completion import complete_memory_schedulers
from tvm_ios.cli.options.model import Batch, Model, Shapes, input_shapes
from tvm_ios.cli.options.values import bytes_of, names_in, refuse, require_known, wrong_use
from tvm_ios.files.byte_sizes import kib
from tvm_ios.memory.options import Direction, Solver

if TYPE_CHECKING:
    from tvm_ios.graph.op_graph import OpGraph
    from tvm_ios.memory.comparison import ScheduledMemory

_BARS = " ▁▂▃▄▅▆▇█"


PAGE = HelpPage(
    (
        "tvm-ios memory darts",
        "tvm-ios memory hrnet_w32_256 --scheduler rpo,optimal --fuse-activations --plot memory.svg",
        "tvm-ios memory model.onnx --budget 4M",
    ),
    "`tvm-ios schedule --memory-budget` finds the fastest schedule that fits.",
)


@dataclass(frozen=True, kw_only=True)
class FusionIlp:
    """Options: where reverse post-order begins, and those that fusion-ilp alone reads."""

    rpo_from: Annotated[
        Direction,
        panels.search(help="Where the search of reverse post-order begins.", show_choices=True),
    ] = "inputs"
    parts: Annotated[
        int | None,
        panels.search(min=1, help="Parts of fusion-ilp's partition, at most; else of 40 nodes."),
    ] = None
    solver: Annotated[
        Solver | None, panels.search(help="Of fusion-ilp's integer programs; cp-sat by default.")
    ] = None
    no_pruning: Annotated[
        bool, panels.search("--no-pruning", help="fusion-ilp keeps what the topology decides.")
    ] = False
    no_fusion: Annotated[
        bool, panels.search("--no-fusion", help="fusion-ilp orders operators that are not fused.")
    ] = False
    naive_partition: Annotated[
        bool, panels.search("--naive-partition", help="fusion-ilp divides into equal parts.")
    ] = False


@reports_errors
def memory(
    model: Model,
    reporting: Reporting,
    ilp: FusionIlp,
    scheduler: Annotated[
        str | None,
        panels.search(
            metavar="NAMES",
            help="Schedulers to run, between commas, instead of all.",
            autocompletion=complete_memory_schedulers,
        ),
    ] = None,
    units: Annotated[
        bool, panels.search("--units", help="Order the units that run instead of the operators.")
    ] = False,
    in_place: Annotated[
        bool,
        panels.search("--in-place", help="Element-wise operators write over an input read last."),
    ] = False,
    zero_copy_concat: Annotated[
        bool,
        panels.search("--zero-copy-concat", help="What is concatenated lies in the result."),
    ] = False,
    fuse_activations: Annotated[
        bool,
        panels.search("--fuse-activations", help="Activations go with what makes their input."),
    ] = False,
    rewrite: Annotated[
        bool,
        panels.search("--rewrite", help="First split what convolves a concatenation (SERENITY)."),
    ] = False,
    budget: Annotated[
        str | None,
        panels.limits(metavar="BYTES", help="Fail unless an order fits: 800000, 512K, 1.5M."),
    ] = None,
    time_limit: Annotated[
        float, panels.limits(min=0.0, help="Seconds of each scheduler, at most.")
    ] = 30.0,
    plot: Annotated[
        Path | None, panels.output(help="Draw the footprints over time into this .svg or .png.")
    ] = None,
    shape: Shapes = None,
    batch: Batch = None,
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
    from tvm_ios.memory.operators import with_activations, with_biases
    from tvm_ios.memory.options import SchedulerOptions
    from tvm_ios.memory.published.identity_rewriting import rewrite_concatenations
    from tvm_ios.memory.schedulers import MEMORY_SCHEDULERS
    from tvm_ios.models.source import ModelSource
    from tvm_ios.plot import require_picture

    names = tuple(MEMORY_SCHEDULERS) if scheduler is None else names_in(scheduler)
    require_known(names, MEMORY_SCHEDULERS, "--scheduler")
    if not names:
        raise wrong_use("--scheduler", "it names none")
    allowed = bytes_of(budget, "--budget")
    if plot is not None:
        require_picture(plot)
    if units:
        unfit = {"--rewrite": rewrite, "--fuse-activations": fuse_activations}
        refuse("units run as they are: leave out --units", unfit)
    options = SchedulerOptions(
        ilp.rpo_from,
        ilp.parts,
        ilp.solver or "cp-sat",
        not ilp.no_pruning,
        not ilp.no_fusion,
        not ilp.naive_partition,
    )
    if "fusion-ilp" not in names and options != SchedulerOptions(ilp.rpo_from):
        raise wrong_use(
            "--scheduler",
            "only fusion-ilp reads --parts, --solver, --no-pruning, --no-fusion and "
            "--naive-partition: add it",
        )
    source = ModelSource(model, shapes=input_shapes(shape), batch=batch)
    ordered = with_activations if fuse_activations else with_biases
    rewritten: OpGraph | None = None
    if units:
        graph, end = units_and_tail(source)
    else:
        operators, end = operators_and_tail(source)
        graph = ordered(operators)
        rewritten = ordered(rewrite_concatenations(operators)) if rewrite else None
    tail = tell_tail(end)
    counting = Counting(in_place, zero_copy_concat)
    with progress_bars() as update:
        rows = compare_schedulers(graph, counting, names, time_limit, update, options)
        before = None
        if rewritten is not None:
            before = rows
            graph = rewritten
            rows = compare_schedulers(graph, counting, names, time_limit, update, options)
    best = best_of(rows)
    require_fit(graph.name, best.arena, max(row.ordered.bound for row in rows), allowed)
    if plot is not None:
        _plot(rows, best, allowed, plot)
    if reporting.as_json:
        print_json({**_json(graph, rows, best, before), "tail": tail})
    else:
        _print(graph, rows, best, before, allowed)


def _curves(rows: tuple[ScheduledMemory, ...], best: ScheduledMemory) -> list[ScheduledMemory]:
    """Return the rows to draw: the first scheduler's and the best, once if they are the same."""
    return [rows[0]] if best is rows[0] else [rows[0], best]


def _plot(
    rows: tuple[ScheduledMemory, ...], best: ScheduledMemory, budget: int | None, path: Path
) -> None:
    from tvm_ios.plot import plot_footprints, save_picture

    curves = {row.name: row.footprints.stable for row in _curves(rows, best)}
    save_picture(plot_footprints(curves, budget=budget), path)


def _json(
    graph: OpGraph,
    rows: tuple[ScheduledMemory, ...],
    best: ScheduledMemory,
    before: tuple[ScheduledMemory, ...] | None,
) -> dict[str, Any]:
    unchanged = {row.name: row.ordered.peak / 1024 for row in before or ()}
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
                "peak_before_rewriting_kib": unchanged.get(row.name),
            }
            for row in rows
        ],
        "best": best.name,
        "order": [graph.operators[op].name for op in best.ordered.order],
    }


def _print(
    graph: OpGraph,
    rows: tuple[ScheduledMemory, ...],
    best: ScheduledMemory,
    before: tuple[ScheduledMemory, ...] | None,
    budget: int | None,
) -> None:
    unchanged = {row.name: kib(row.ordered.peak) for row in before or ()}
    table = Table(
        "scheduler", "peak KiB", "arena KiB", "seconds", "operators", "fused", "proof",
        title=escape(graph.name),
    )  # fmt: skip
    if unchanged:
        table.add_column("not rewritten: peak KiB")
    for column in table.columns[1:]:
        column.justify = "left" if column.header == "proof" else "right"
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
            *([unchanged[row.name]] if unchanged else []),
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
    """Return footprints over time as a line of bars, each the largest value of its span."""
    columns = min(width, len(values))
    spans = [
        values[len(values) * i // columns : len(values) * (i + 1) // columns]
        for i in range(columns)
    ]
    return "".join(_BARS[-(-max(span) * (len(_BARS) - 1) // max(top, 1))] for span in spans)
