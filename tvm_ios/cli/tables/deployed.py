"""Entries of deployments, as tables or JSON."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from rich.markup import escape
from rich.table import Column, Table

from tvm_ios.cli.frame.output import console, print_json

if TYPE_CHECKING:
    from tvm_ios.api.deployments.deployed import Deployed
    from tvm_ios.deployment.entry import Entry


def print_deployed(done: Deployed, as_json: bool) -> None:
    """Print the entries that were added to a deployment, and the programs that were not made."""
    if as_json:
        print_json(
            {
                "model": done.model,
                "deployment": str(done.folder),
                "entries": [entry.to_json() for entry in done.entries],
                "others": [entry.to_json() for entry in done.others],
                "left_out": done.left_out,
            }
        )
        return
    out = console()
    out.print(entry_table(f"{done.model}: added", done.entries))
    for entry in done.entries:
        for note in entry.notes:
            out.print(f"[yellow]{escape(entry.id)}: {escape(note)}[/yellow]")
    for sentence in done.left_out:
        out.print(f"[yellow]left out: {escape(sentence)}[/yellow]")
    there = f", beside {len(done.others)} that were there" if done.others else ""
    out.print(
        escape(
            f"deployment: {done.folder}, {len(done.entries)} entries added{there}  "
            f"(tvm-ios pick {done.folder})"
        )
    )


def _rows(entry: Entry) -> str:
    if entry.is_of_range:
        return "in the range"
    return "any fewer" if entry.padding and (entry.batch or 1) > 1 else "as they are"


def entry_table(
    title: str,
    entries: Sequence[Entry],
    remarks: Mapping[str, str] | None = None,
    taken: Sequence[str] = (),
) -> Table:
    """Return a table with a row for each entry; those named in ``taken`` are highlighted.

    With ``remarks`` (by entry) there is a last column of these.
    """
    table = Table(
        Column("entry", no_wrap=True),
        "inputs",
        "rows",
        "lanes",
        "policy",
        "latency",
        *([] if remarks is None else ["here"]),
        title=escape(title),
    )
    for entry in entries:
        latency = "not measured" if entry.latency_ms is None else f"{entry.latency_ms:.3f} ms"
        table.add_row(
            escape(entry.id),
            escape(", ".join(map(str, entry.inputs))),
            _rows(entry),
            str(entry.lanes),
            entry.policy,
            latency,
            *([] if remarks is None else [escape(remarks[entry.id])]),
            style="bold green" if entry.id in taken else "",
        )
    return table
