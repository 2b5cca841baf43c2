"""``tvm-ios reproduce``: the tables and figures of the publications, ours beside theirs."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from tvm_ios.cli.frame.help_pages import HelpPage
from tvm_ios.cli.frame.output import Debug, Json, Verbose, print_json, progress_bars, reports_errors
from tvm_ios.cli.options.completion import complete_papers

PAGE = HelpPage(
    (
        "tvm-ios reproduce ios-thesis/table-3.1",
        "tvm-ios reproduce --list",
        "tvm-ios reproduce rammer-osdi20 -o rammer.json",
    ),
    "docs/papers.md shows all of them, and says what differs and why.",
)


@reports_errors
def reproduce(
    names: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[NAME]...",
            help="Texts, or single tables and figures of them.  [all]",
            autocompletion=complete_papers,
        ),
    ] = None,
    only_list: Annotated[
        bool, typer.Option("--list", help="Only list the tables and figures.")
    ] = False,
    anew: Annotated[
        bool, typer.Option("--anew", help="Compute again what was computed before.")
    ] = False,
    workers: Annotated[
        int | None,
        typer.Option(min=1, help="Tables and figures that are computed at once.  [all CPUs]"),
    ] = None,
    output: Annotated[
        Path | None,
        typer.Option("-o", "--output", metavar="FILE", help="Write all rows as JSON here."),
    ] = None,
    as_json: Json = False,
    verbose: Verbose = 0,
    debug: Debug = False,
) -> None:
    """Print the tables and figures of the publications, ours beside theirs.

    Each value says how it was had: counted, simulated on a described device, measured here, or not
    possible, and why. What was computed is kept: a command that is stopped goes on where it was.
    """
    from runtime_ext.machine.this_machine import available_lanes, cache_folder
    from tvm_ios.cli.tables.reproduced import print_catalogue, print_reproduced
    from tvm_ios.files.atomic import require_writable
    from tvm_ios.papers.catalogue import items_named
    from tvm_ios.papers.document import document, write_document
    from tvm_ios.papers.reproduce import reproduce as reproduce_items

    items = items_named(names or ())
    if only_list:
        if as_json:
            listed = [{"name": i.name, "title": i.title, "place": i.place} for i in items]
            return print_json({"items": listed})
        return print_catalogue(items)
    if output is not None:
        require_writable(output)
    with progress_bars() as update:
        reproduced = reproduce_items(
            items,
            cache_folder() / "papers",
            workers or available_lanes(),
            anew,
            update,
            lambda sentence: update.tell(f"tvm-ios: {sentence}"),
        )
    if output is not None:
        write_document(reproduced, output)
    if as_json:
        print_json(document(reproduced))
    else:
        print_reproduced(reproduced)
    if any(one.error is not None for one in reproduced):
        raise typer.Exit(1)
