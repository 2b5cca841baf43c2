"""``tvm-ios prune``: remove programs of a deployment."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich.markup import escape

from tvm_ios.cli.frame import panels
from tvm_ios.cli.frame.help_pages import HelpPage
from tvm_ios.cli.frame.output import Reporting, console, print_json, reports_errors

PAGE = HelpPage(
    (
        "tvm-ios prune app/ x86-64-v4-2l-b8-0dd8f3ad",
        "tvm-ios prune app/ --keep x86-64-v3-2l-b1-554123f2",
    ),
    "`tvm-ios pick` shows what is there.",
)


@reports_errors
def prune(
    deployment: Annotated[Path, typer.Argument(help="What `tvm-ios optimize -o` made of several.")],
    entries: Annotated[
        list[str], typer.Argument(help="Entries, by name or what only they begin with.")
    ],
    reporting: Reporting,
    keep: Annotated[
        bool, panels.output("--keep", help="Keep these, and remove all others.")
    ] = False,
) -> None:
    """Remove programs of a deployment.

    Weights and kernels that no other entry needs go with them. Killed in the middle, it leaves a
    deployment that runs.
    """
    from runtime_ext.deployment.pruning import prune as remove

    done = remove(deployment, entries, keep=keep)
    if reporting.as_json:
        removed = [entry.id for entry in done.removed]
        print_json({"removed": removed, "freed_bytes": done.freed_bytes})
        return
    for entry in done.removed:
        console().print(escape(f"removed {entry.id}"))
    console().print(f"{done.freed_bytes / 2**20:.1f} MiB freed")
