"""``tvm-ios pick``: which program of a deployment runs on a machine, and why."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from tvm_ios.cli.frame import panels
from tvm_ios.cli.frame.help_pages import HelpPage
from tvm_ios.cli.frame.output import Reporting, console, print_json, reports_errors
from tvm_ios.cli.options.model import Shapes, input_shapes
from tvm_ios.cli.tables.deployed import entry_table

PAGE = HelpPage(
    (
        "tvm-ios pick app/",
        "tvm-ios pick app/ --shape x:5,3,224,224",
        "tvm-ios pick app/ --arch x86-64-v3 --lanes 4 --json",
    ),
    "`tvm-ios run` runs it; `tvm-ios prune` removes what nobody takes.",
)


@reports_errors
def pick(
    deployment: Annotated[Path, typer.Argument(help="What `tvm-ios optimize -o` made of several.")],
    reporting: Reporting,
    shape: Shapes = None,
    lanes: Annotated[
        int | None, panels.running(min=1, help="Lanes that may be used.  [CPUs of this process]")
    ] = None,
    arch: Annotated[
        str | None,
        panels.target(help="Of another machine: x86-64-v3, sm_90 and the like.  [this one]"),
    ] = None,
) -> None:
    """Show which program of a deployment would be taken, and why.

    All entries, each with why it is not taken. Without --shape it is what each entry's own shapes
    take, of a range the middle. A machine takes of the entries that fit the one of just this shape,
    then of the range of the fewest shapes, then of the smallest larger batch; of these the one of
    the highest instruction-set level, then the fastest, if one machine measured these, or else the
    one of the most lanes.
    """
    from runtime_ext.deployment.choice import all_shapes, choose, verdicts
    from runtime_ext.deployment.machine import machine_of, this_machine
    from tvm_ios.deployment.registry import read_registry

    registry = read_registry(deployment)
    entries = registry.entries
    machine = this_machine(entries, lanes) if arch is None else machine_of(entries, arch, lanes)
    shapes = input_shapes(shape) or None
    if shapes is not None:
        shapes = all_shapes(entries, shapes)
        # If no entry fits, raise the reason: there is nothing else to show.
        choose(entries, machine, shapes)
    judged = list(zip(entries, verdicts(entries, machine, shapes), strict=True))
    taken = [entry.id for entry, verdict in judged if verdict.taken]
    if reporting.as_json:
        rows = [{**entry.to_json(), **asdict(verdict)} for entry, verdict in judged]
        print_json({"model": registry.model, "taken": taken, "entries": rows})
        return
    asked = "" if shapes is None else f" for {', '.join(shape or ())}"
    reasons = {entry.id: verdict.reason for entry, verdict in judged}
    console().print(entry_table(f"{registry.model}{asked}", entries, reasons, taken))
