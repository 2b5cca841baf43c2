"""``tvm-ios memory`` with a ``.tflite`` file, for TensorFlow Lite Micro."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from rich.markup import escape
from rich.table import Table

from tvm_ios.cli.frame.output import Reporting, console, print_json
from tvm_ios.cli.options.memory import Memories
from tvm_ios.cli.options.values import refuse, wrong_use
from tvm_ios.errors import MemoryBudgetError, ModelError, UserError
from tvm_ios.files.atomic import require_writable, write_atomically
from tvm_ios.memory.formats.tflite.planning import PlannedModel, plan_tflite


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
    refuse(
        "TensorFlow Lite Micro has one arena, and aligns to 16 bytes: leave it out",
        {"--bank": memories.bank, "--alignment": memories.alignment},
    )
    if len(schedulers) != 1:
        raise wrong_use("--scheduler", "one orders a .tflite file: name one")
    if memories.output is not None:
        if memories.output.suffix != ".tflite":
            raise wrong_use("--output", f"{memories.output} is no .tflite file")
        require_writable(memories.output)
    data = path.read_bytes()
    try:
        planned = plan_tflite(
            data, scheduler=schedulers[0], time_limit=time_limit, in_place=in_place
        )
    except UserError as error:
        raise ModelError(f"{path}: {error}") from error
    _require_fit(path, planned, memories.allowed)
    if memories.output is not None:
        write_atomically(memories.output, planned.data)
    if reporting.as_json:
        print_json(_json(path, planned))
        return
    _show(path, planned, len(planned.data) - len(data))
    if memories.output is not None:
        out = f"wrote {escape(str(memories.output))}"
        console().print(out, highlight=False, soft_wrap=True)


def _require_fit(path: Path, planned: PlannedModel, allowed: int | None) -> None:
    if allowed is None or planned.nbytes <= allowed:
        return
    proof = "and no order and placement needs less"
    if not planned.proven:
        proof = f"and none that needs less than {planned.bound:,} can be found"
    raise MemoryBudgetError(
        f"the tensors of {path} do not fit into {allowed:,} bytes: they need {planned.nbytes:,}, "
        f"{proof}"
    )


def _json(path: Path, planned: PlannedModel) -> dict[str, object]:
    return {
        "model": path.stem,
        "arena_before_kib": planned.nbytes_before / 1024,
        "arena_kib": planned.nbytes / 1024,
        "bound_kib": planned.bound / 1024,
        "proof": planned.proven,
        "order": planned.orders,
        "offsets": planned.offsets,
    }


def _show(path: Path, planned: PlannedModel, more: int) -> None:
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
