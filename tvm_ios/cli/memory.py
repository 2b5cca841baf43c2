"""``tvm-ios memory``: orders of operators and places of buffers that need the least memory."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from tvm_ios.cli.frame import panels
from tvm_ios.cli.frame.help_pages import HelpPage
from tvm_ios.cli.frame.output import Reporting, print_json, reports_errors, tell_tail
from tvm_ios.cli.options.completion import complete_memory_schedulers, complete_model
from tvm_ios.cli.options.memory import FusionIlp, Memories
from tvm_ios.cli.options.model import Batch, Shapes, input_shapes
from tvm_ios.cli.options.values import names_in, refuse, require_known, wrong_use

if TYPE_CHECKING:
    from tvm_ios.cli.memory_files import Search
    from tvm_ios.cli.tables.memory import OrderedModel
    from tvm_ios.memory.footprint import Counting
    from tvm_ios.models.source import ModelSource

PAGE = HelpPage(
    (
        "tvm-ios memory darts",
        "tvm-ios memory hrnet_w32_256 --scheduler rpo,optimal --fuse-activations --plot memory.svg",
        "tvm-ios memory model.onnx -o reordered.onnx",
        "tvm-ios memory model.onnx --bank sram=512K:1 --bank dram=:10 -o buffers.csv",
        "tvm-ios memory model.tflite -o planned.tflite",
        "tvm-ios memory buffers.csv --capacity 1MiB -o placed.csv",
    ),
    "`tvm-ios schedule --memory-budget` finds the fastest schedule that fits.",
)


@reports_errors
def memory(
    model: Annotated[
        str,
        typer.Argument(
            help="A zoo name, an .onnx, .pt2 or .tflite file, a TVM module saved as .json, or a "
            "table of buffers (.csv).",
            autocompletion=complete_model,
        ),
    ],
    reporting: Reporting,
    ilp: FusionIlp,
    memories: Memories,
    scheduler: Annotated[
        str | None,
        panels.search(
            metavar="NAMES",
            help="Schedulers to run, between commas; else all, or optimal with --output or --bank.",
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
    bands: Annotated[
        bool,
        panels.search(
            "--bands",
            help="With --output: compute parts of the model in bands of rows, with more arithmetic "
            "at their borders, where that needs less.",
        ),
    ] = False,
    time_limit: Annotated[
        float, panels.limits(min=0.0, help="Seconds of each scheduler, and of placing, at most.")
    ] = 30.0,
    plot: Annotated[
        Path | None, panels.output(help="Draw the footprints over time into this .svg or .png.")
    ] = None,
    shape: Shapes = None,
    batch: Batch = None,
) -> None:
    """Order the operators of a model for the least peak memory, or place buffers.

    The peak is of all tensors that live at once, inputs and outputs among them, weights not; the
    arena is one block of memory with a place for each. Where the proof says yes, no order has a
    smaller peak. Below the table the footprints over time, of reverse post-order and the best.

    With --output or --bank the nodes are those of the file itself, and views and element-wise
    results lie in the memory of what they read, as in most runtimes.
    """
    from tvm_ios.cli.memory_files import Search, order_nodes, place_table, plan_model
    from tvm_ios.memory.footprint import Counting
    from tvm_ios.memory.schedulers import MEMORY_SCHEDULERS
    from tvm_ios.models.source import ModelSource
    from tvm_ios.plot import plot_footprints, require_picture, save_picture

    own_nodes = memories.output is not None or bool(memories.bank)
    default = ("optimal",) if own_nodes else tuple(MEMORY_SCHEDULERS)
    names = default if scheduler is None else names_in(scheduler)
    require_known(names, MEMORY_SCHEDULERS, "--scheduler")
    if not names:
        raise wrong_use("--scheduler", "it names none")
    if plot is not None:
        require_picture(plot)
    of_graphs = {
        "--units": units,
        "--zero-copy-concat": zero_copy_concat,
        "--fuse-activations": fuse_activations,
    }
    if Path(model).suffix == ".csv":
        unfit = {
            "--scheduler": scheduler,
            "--in-place": in_place,
            "--plot": plot,
            "--rewrite": rewrite,
            "--bands": bands,
        }
        refuse("a table has buffers only: leave it out", {**unfit, **of_graphs, "--shape": shape})
        place_table(Path(model), memories, time_limit, reporting)
        return
    if Path(model).suffix == ".tflite":
        unfit = {"--plot": plot, "--rewrite": rewrite, "--bands": bands, "--batch": batch}
        refuse("a .tflite file is planned as it is", {**unfit, **of_graphs, "--shape": shape})
        plan_model(
            Path(model),
            memories,
            ("optimal",) if scheduler is None else names,
            reporting,
            time_limit=time_limit,
            in_place=in_place,
        )
        return
    search = Search(names, time_limit, ilp.options(names))
    source = ModelSource(model, shapes=input_shapes(shape), batch=batch)
    if own_nodes:
        refuse("the nodes of the file itself are ordered: leave it out", of_graphs)
        ordered = order_nodes(source, search, memories, reporting, rewrite=rewrite, bands=bands)
    else:
        of_nodes = {"--alignment": memories.alignment, "--bands": bands}
        refuse("it is of --bank and --output: add one", of_nodes)
        if units:
            unfit = {"--rewrite": rewrite, "--fuse-activations": fuse_activations}
            refuse("units run as they are: leave out --units", unfit)
        ordered = _order_operators(
            source,
            search,
            Counting(in_place, zero_copy_concat),
            units=units,
            fuse_activations=fuse_activations,
            rewrite=rewrite,
            allowed=memories.allowed,
            reporting=reporting,
        )
    if plot is not None:
        curves = {row.name: row.footprints.stable for row in ordered.curves}
        save_picture(plot_footprints(curves, budget=memories.allowed), plot)


def _order_operators(
    source: ModelSource,
    search: Search,
    counting: Counting,
    *,
    units: bool,
    fuse_activations: bool,
    rewrite: bool,
    allowed: int | None,
    reporting: Reporting,
) -> OrderedModel:
    """Order the operators or units of a model as TVM has it, and print the orders."""
    from tvm_ios.api import operators_and_tail, units_and_tail
    from tvm_ios.cli.tables.memory import OrderedModel
    from tvm_ios.memory.comparison import best_of
    from tvm_ios.memory.fitting import require_fit
    from tvm_ios.memory.operators import with_activations, with_biases
    from tvm_ios.memory.problem import memory_problem
    from tvm_ios.memory.published.identity_rewriting import rewrite_concatenations

    grouped = with_activations if fuse_activations else with_biases
    graph, end = units_and_tail(source) if units else operators_and_tail(source)
    tail = tell_tail(end)
    rewritten = grouped(rewrite_concatenations(graph)) if rewrite else None
    graph = graph if units else grouped(graph)
    rows, before = search.rows(memory_problem(graph, counting)), None
    if rewritten is not None:
        graph, before = rewritten, rows
        rows = search.rows(memory_problem(graph, counting))
    best = best_of(rows)
    require_fit(graph.name, best.arena, max(row.ordered.bound for row in rows), allowed)
    ordered = OrderedModel(graph.name, [op.name for op in graph.operators], rows, best, before)
    if reporting.as_json:
        print_json({**ordered.to_json(), "tail": tail})
    else:
        ordered.show(allowed)
    return ordered
