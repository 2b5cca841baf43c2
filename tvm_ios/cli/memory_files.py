"""``tvm-ios memory`` with tables of buffers, and with models whose own nodes are ordered."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from rich.markup import escape
from rich.table import Table

from tvm_ios.cli.frame.output import (
    Reporting,
    console,
    counted,
    print_json,
    progress_bars,
    tell_tail,
)
from tvm_ios.cli.options.memory import Memories
from tvm_ios.cli.options.values import refuse, wrong_use
from tvm_ios.cli.tables.memory import OrderedModel, placed_json, show_placed
from tvm_ios.errors import MemoryBudgetError, ModelError, UserError
from tvm_ios.files.atomic import require_writable, write_atomically
from tvm_ios.memory.comparison import ScheduledMemory, compare_schedulers, scheduled
from tvm_ios.memory.fitting import require_fit
from tvm_ios.memory.formats.buffer_table import BufferTable
from tvm_ios.memory.options import SchedulerOptions
from tvm_ios.memory.orders import as_given
from tvm_ios.memory.planning import plan
from tvm_ios.memory.problem import MemoryProblem
from tvm_ios.models.source import ModelSource
from tvm_ios.program.program import ALIGNMENT

if TYPE_CHECKING:
    from tvm_ios.memory.formats.onnx_model import RewrittenModel, WrittenModel
    from tvm_ios.memory.formats.tflite.planning import PlannedModel


@dataclass(frozen=True)
class Search:
    """The schedulers that search, each for ``time_limit`` seconds."""

    names: Sequence[str]
    time_limit: float
    options: SchedulerOptions

    def rows(self, problem: MemoryProblem) -> tuple[ScheduledMemory, ...]:
        """Return the order of each scheduler, and show how far they are."""
        with progress_bars() as update:
            return compare_schedulers(problem, self.names, self.time_limit, update, self.options)


def place_table(path: Path, memories: Memories, time_limit: float, reporting: Reporting) -> None:
    """Place the buffers of a table, and print and write where they lie."""
    _require_suffix(memories.output, ".csv")
    table = BufferTable.read(path)
    alignment = memories.alignment or 1
    placed = plan(table.buffers, memories.banks(), alignment=alignment, time_limit=time_limit)
    if memories.output is not None:
        table.write(memories.output, placed)
    if reporting.as_json:
        print_json({"buffers": len(table.buffers), **placed_json(placed)})
        return
    show_placed(path.name, placed)
    _tell_written(memories.output)


def order_nodes(
    source: ModelSource,
    search: Search,
    memories: Memories,
    reporting: Reporting,
    *,
    rewrite: bool,
    bands: bool,
) -> OrderedModel:
    """Order the nodes of an ONNX file, and print and write the best order, or places in it.

    The order of the file is kept if none needs less. With ``rewrite`` and ``bands`` the model is
    changed where that needs less.
    """
    from tvm_ios.memory.formats.onnx_model import WrittenModel

    output = memories.output
    suffix = _require_suffix(output, ".onnx", ".csv")
    banks = memories.banks()
    model = WrittenModel.read(source)
    unknown = counted(len(model.unknown), "value")
    tail = f"{unknown} of sizes that depend on the data count as nothing" if model.unknown else None
    tell_tail(tail)
    in_bands = partial(WrittenModel.banded, seconds=search.time_limit)
    changes = {
        "convolutions rewritten": WrittenModel.rewritten if rewrite else None,
        "parts in bands of rows": in_bands if bands else None,
    }
    ordered = _ordered(model, search)
    changed: dict[str, RewrittenModel] = {}
    for name, change in ((name, change) for name, change in changes.items() if change is not None):
        result = change(model)
        after = _ordered(result.model, search)
        if result.places and after.best.arena.plan.nbytes < ordered.best.arena.plan.nbytes:
            ordered = replace(after, before=ordered.before or ordered.rows)
            changed[name], model = result, result.model
    best = ordered.best
    bound = max(row.ordered.bound for row in ordered.rows)
    require_fit(source.name, best.arena, bound, memories.allowed)
    order = model.graph.unsorted(best.ordered.order)
    placed = None
    if memories.bank or suffix == ".csv":
        table = BufferTable.of(model.graph.lifetimes(order))
        alignment = memories.alignment or ALIGNMENT
        placed = plan(table.buffers, banks, alignment=alignment, time_limit=search.time_limit)
        if output is not None and suffix == ".csv":
            table.write(output, placed)
    if output is not None and suffix == ".onnx":
        model.write(output, order)
    if reporting.as_json:
        document = ordered.to_json()
        if placed is not None:
            document["placed"] = placed_json(placed)
        document["changes"] = [
            {"change": name, "places": each.places, "more_work": each.more_work}
            for name, each in changed.items()
        ]
        print_json({**document, "tail": tail})
        return ordered
    ordered.show(memories.allowed)
    for name, change in changes.items():
        if name in changed:
            each = changed[name]
            console().print(f"{each.places} {name}: {each.more_work:.1%} more arithmetic")
        elif change is not None:
            console().print(f"no {name}: the model would not need less")
    if placed is not None:
        show_placed(source.name, placed)
    _tell_written(output)
    return ordered


def _ordered(model: WrittenModel, search: Search) -> OrderedModel:
    """Return the orders of a model's nodes; the best is its own if none needs less."""
    problem = model.graph.problem
    own = scheduled(problem, "as written", as_given(problem))
    rows = (own, *search.rows(problem))
    best = min(rows, key=lambda row: (row.arena.plan.nbytes, row.ordered.peak))
    return OrderedModel(model.source.name, [node.name for node in model.nodes], rows, best)


def plan_model(
    path: Path,
    memories: Memories,
    schedulers: Sequence[str],
    reporting: Reporting,
    *,
    time_limit: float,
    in_place: bool,
) -> None:
    """Order and place the tensors of a model, and print and write what the device then needs."""
    from tvm_ios.memory.formats.tflite.planning import plan_tflite

    refuse(
        "TensorFlow Lite Micro has one arena, and aligns to 16 bytes: leave it out",
        {"--bank": memories.bank, "--alignment": memories.alignment},
    )
    if len(schedulers) != 1:
        raise wrong_use("--scheduler", "one orders a .tflite file: name one")
    _require_suffix(memories.output, ".tflite")
    data = path.read_bytes()
    try:
        planned = plan_tflite(
            data, scheduler=schedulers[0], time_limit=time_limit, in_place=in_place
        )
    except UserError as error:
        raise ModelError(f"{path}: {error}") from error
    _require_model_fits(path, planned, memories.allowed)
    if memories.output is not None:
        write_atomically(memories.output, planned.data)
    if reporting.as_json:
        print_json(_model_json(path, planned))
        return
    _show_model(path, planned, len(planned.data) - len(data))
    _tell_written(memories.output)


def _require_model_fits(path: Path, planned: PlannedModel, allowed: int | None) -> None:
    if allowed is None or planned.nbytes <= allowed:
        return
    proof = "and no order and placement needs less"
    if not planned.proven:
        proof = f"and none that needs less than {planned.bound:,} can be found"
    raise MemoryBudgetError(
        f"the tensors of {path} do not fit into {allowed:,} bytes: they need {planned.nbytes:,}, "
        f"{proof}"
    )


def _model_json(path: Path, planned: PlannedModel) -> dict[str, object]:
    return {
        "model": path.stem,
        "arena_before_kib": planned.nbytes_before / 1024,
        "arena_kib": planned.nbytes / 1024,
        "bound_kib": planned.bound / 1024,
        "proof": planned.proven,
        "order": planned.orders,
        "offsets": planned.offsets,
    }


def _show_model(path: Path, planned: PlannedModel, more: int) -> None:
    table = Table("arena of tensors", "bytes", title=escape(path.name))
    table.columns[1].justify = "right"
    table.add_row("as it came", f"{planned.nbytes_before:,}")
    table.add_row("planned", f"{planned.nbytes:,}", style="bold green")
    out = console()
    out.print(table)
    if planned.proven:
        out.print("no order and no placement needs less")
    else:
        out.print(f"any order and placement needs at least {planned.bound:,} bytes")
    if planned.nbytes == planned.nbytes_before:
        out.print("the model is left as it came: nothing is gained")
        return
    changes = ["the order of operators"] * planned.reordered
    changes += ["an offline plan"] * (planned.offsets is not None)
    out.print(f"changed: {' and '.join(changes)}; the file has {more:,} bytes more")


def _require_suffix(output: Path | None, *allowed: str) -> str:
    """Return the suffix of the file to write, or nothing without a file.

    What is none of those allowed is a wrong use; raise OSError if the file cannot be written.
    """
    if output is None:
        return ""
    if output.suffix not in allowed:
        raise wrong_use("--output", f"{output} is none of {', '.join(allowed)}")
    require_writable(output)
    return output.suffix


def _tell_written(output: Path | None) -> None:
    if output is not None:
        console().print(f"wrote {escape(str(output))}", highlight=False, soft_wrap=True)
