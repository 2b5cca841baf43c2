"""The rows of a sweep as tables: searches, schedules run elsewhere, and memory orders."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from rich.markup import escape
from rich.table import Table

from tvm_ios.cli.frame.output import console
from tvm_ios.files.byte_sizes import kib
from tvm_ios.sweep.rows import latency_of

Row = Mapping[str, Any]


def print_sweep(rows: Sequence[Row], counts: Mapping[str, int], path: Path) -> None:
    """Print a table of each kind of task, and the path of the file with all rows.

    ``counts`` has the numbers of ``tasks``, of those ``resumed`` and of those ``failed``.
    """
    out = console()
    for kind, columns in _COLUMNS.items():
        of_kind = [row for row in rows if row["kind"] == kind]
        # Leave out columns that are empty in all rows.
        shown = {name: cell for name, cell in columns.items() if any(map(cell, of_kind))}
        if of_kind:
            table = Table(*shown)
            for row in of_kind:
                table.add_row(*(escape(cell(row)) for cell in shown.values()))
            out.print(table)
    out.print(
        f"{counts['tasks']} tasks, {counts['resumed']} of them finished before, "
        f"{counts['failed']} failed; all rows are in {path}",
        highlight=False,
    )


def _text(column: str) -> Callable[[Row], str]:
    return lambda row: "" if row[column] is None else str(row[column])


def _ratio(column: str) -> Callable[[Row], str]:
    return lambda row: "" if row[column] is None else f"{row[column]:.3f}"


def _kib(column: str) -> Callable[[Row], str]:
    return lambda row: "" if row[column] is None else kib(row[column] * 1024)


def _pruning(row: Row) -> str:
    return f"{row['r']}, {row['s']}"


def _latency(row: Row) -> str:
    if row["error"] is not None:
        return "failed"
    milliseconds = latency_of(row)
    return "" if milliseconds is None else f"{milliseconds:.3f} ms"


def _made_for(row: Row) -> str:
    """Return batch, shapes and device that a schedule was made for, where its run differs."""
    pairs = (("batch", "batch"), ("shapes", "shapes"), ("device", "device"))
    differing = [
        f"{word} {row[f'made_for_{column}']}" if word == "batch" else row[f"made_for_{column}"]
        for word, column in pairs
        if row[f"made_for_{column}"] != row[column]
    ]
    return ", ".join(map(str, differing))


def _proof(row: Row) -> str:
    if row["error"] is not None:
        return "failed"
    return "optimal" if row["proof"] else f"at least {kib(row['bound_kib'] * 1024)}"


_WORKLOAD = {"model": _text("model"), "batch": _text("batch"), "shapes": _text("shapes")}
_SCHEDULED = {**_WORKLOAD, "device": _text("device"), "policy": _text("policy"), "r, s": _pruning}

#: For each kind of task the columns of its table, and the function that makes each cell of a row.
_COLUMNS: Mapping[str, Mapping[str, Callable[[Row], str]]] = {
    "search": {
        **_SCHEDULED,
        "latency": _latency,
        "to sequential": _ratio("to_sequential"),
        "stages": _text("stages"),
        "memory KiB": _kib("memory_kib"),
    },
    "crossing": {
        **_SCHEDULED,
        "schedule made for": _made_for,
        "latency": _latency,
        "to the one made for it": _ratio("to_specialised"),
    },
    "memory": {
        **_WORKLOAD,
        "scheduler": _text("scheduler"),
        "peak KiB": _kib("peak_kib"),
        "arena KiB": _kib("arena_kib"),
        "proof": _proof,
    },
}
