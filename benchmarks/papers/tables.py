"""Tables and figures of publications, ours beside theirs."""

from __future__ import annotations

from collections.abc import Sequence

from rich.markup import escape
from rich.table import Table

from benchmarks.papers.catalogue import Item
from benchmarks.papers.document import agreements
from benchmarks.papers.reproduce import Reproduced
from benchmarks.papers.row import How, Row, shown
from tvm_ios.cli.frame.output import console


def print_catalogue(items: Sequence[Item]) -> None:
    """Print what tables and figures there are."""
    table = Table("name", "where", "what it shows")
    for item in items:
        table.add_row(item.name, item.place, escape(item.title))
    console().print(table)


def print_reproduced(reproduced: Sequence[Reproduced]) -> None:
    """Print a table of each, and how many rows agree how far."""
    out = console()
    for one in reproduced:
        same = f", the same as {one.item.same_as}" if one.item.same_as else ""
        title = f"{one.item.name}: {one.item.title} ({one.item.place}{same})"
        if one.error is not None:
            out.print(f"{title}\nfailed: {one.error}", markup=False, highlight=False)
        elif all(row.how is How.ILLUSTRATION for row in one.rows):
            notes = "; ".join(row.note for row in one.rows)
            out.print(f"{title}\nan illustration: {notes}", markup=False, highlight=False)
        else:
            out.print(_table(title, one.rows))
    counts = agreements(reproduced)
    text = ", ".join(f"{number} {agreement}" for agreement, number in counts.items())
    out.print(f"values that agree: {text}", highlight=False)


def _table(title: str, rows: Sequence[Row]) -> Table:
    """A table with a column for each thing that a row has, and its notes below, each once."""
    notes = list(dict.fromkeys(row.note for row in rows if row.note))
    table = Table(
        *("value", "published", "ours", "unit", "agreement", "how"),
        title=escape(title),
        caption=escape("\n".join(f"[{n}] {note}" for n, note in enumerate(notes, start=1))),
        caption_justify="left",
    )
    for row in rows:
        how = f"{row.how} on {row.device}" if row.device else row.how.value
        if row.note:
            how += f" [{notes.index(row.note) + 1}]"
        cells = (row.label, shown(row.published), shown(row.ours), row.unit, row.agreement.value)
        table.add_row(*map(escape, (*cells, how)))
    return table
