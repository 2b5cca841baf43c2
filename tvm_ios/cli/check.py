"""``tvm-ios check``: races in a plan of launches, a CUDA graph or an executable."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer
from rich.markup import escape
from rich.table import Table

from tvm_ios.cli.frame import panels
from tvm_ios.cli.frame.help_pages import HelpPage
from tvm_ios.cli.frame.output import Reporting, console, counted, print_json, reports_errors
from tvm_ios.cli.options.executables import program_at
from tvm_ios.cli.options.values import wrong_use
from tvm_ios.program.arena.check import check_arena
from tvm_ios.program.happens_before import check_races
from tvm_ios.program.memory_plan import MemoryPlan
from tvm_ios.program.program import Program
from tvm_ios.program.races.cuda_graph import read_cuda_graph
from tvm_ios.program.races.document import read_plan
from tvm_ios.program.races.of_program import plan_of_program
from tvm_ios.program.races.plan import find_races

PAGE = HelpPage(
    (
        "tvm-ios check plan.json",
        "tvm-ios check graph.dot --buffers buffers.json",
        "tvm-ios check out/",
    ),
    "docs/check.md describes the documents.",
)


@reports_errors
def check(
    plan: Annotated[
        Path,
        typer.Argument(
            help="A plan (.json), a file of cudaGraphDebugDotPrint (.dot), or an executable."
        ),
    ],
    reporting: Reporting,
    buffers: Annotated[
        Path | None,
        panels.model(
            "--buffers", help="What each node of the .dot file touches: a .json document."
        ),
    ] = None,
) -> None:
    """Name each pair of launches that may run in either order on the same bytes.

    One of the two writes, and neither streams, events nor edges order them. An executable's buffers
    are where its memory plan puts them, and it is refused, too, if a launch reads what was never
    written, or overwritten meanwhile; of a range of shapes the least and the largest are looked at.
    The exit code is 1 if there is such a pair.
    """
    if (plan.suffix == ".dot") is (buffers is None):
        raise wrong_use("--buffers", "it belongs to a .dot file, which needs it")
    programs: list[tuple[Program, MemoryPlan]] = []
    if buffers is not None:
        plans = [read_cuda_graph(plan, buffers)]
    elif plan.suffix == ".json":
        plans = [read_plan(plan)]
    else:
        from runtime_ext.execution.packages.placed_programs import placed_programs

        programs = placed_programs(program_at(plan))
        plans = [plan_of_program(program, memory) for program, memory in programs]
    races = list(dict.fromkeys(race for each in plans for race in find_races(each)))
    launches = len(plans[0].launches)
    if not races:
        # Ordered launches may still read what was never written, or overwritten meanwhile.
        for program, memory in programs:
            check_races(program)
            check_arena(program, memory)
    if reporting.as_json:
        print_json({"launches": launches, "races": [asdict(race) for race in races]})
    else:
        if races:
            table = Table("launch", "and", "touch", title=escape(str(plan)))
            for race in races:
                touched = " and ".join(
                    f"{escape(buffer)} ({'written' if writes else 'read'})"
                    for buffer, writes in zip(race.buffers, race.writes, strict=True)
                )
                table.add_row(escape(race.first), escape(race.second), touched)
            console().print(table)
        console().print(f"{counted(len(races), 'race')} among {launches:,} launches")
    if races:
        raise SystemExit(1)
