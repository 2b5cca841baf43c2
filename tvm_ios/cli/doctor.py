"""``tvm-ios doctor``: what is wrong with this installation."""

from __future__ import annotations

from dataclasses import asdict

from rich.markup import escape
from rich.table import Table

from tvm_ios.cli.frame.help_pages import HelpPage
from tvm_ios.cli.frame.output import Debug, Json, console, print_json, reports_errors

PAGE = HelpPage(
    ("tvm-ios doctor",), "CONTRIBUTING.md says how to set up everything from the source."
)


@reports_errors
def doctor(as_json: Json = False, debug: Debug = False) -> None:
    """Look at this installation and machine, and say what to do about what is wrong.

    Versions and pins, the compiler, the processor, lanes and quotas, GPUs, the cache, environment
    variables; TVM, the executor and a small kernel are tried in a process of their own. The exit
    code is 1 if there is a problem.
    """
    from runtime_ext.doctor.check import Status
    from runtime_ext.doctor.examine import examine

    checks = examine()
    counts = {status: sum(check.status is status for check in checks) for status in Status}
    if as_json:
        print_json(
            {
                "checks": [asdict(check) for check in checks],
                "problems": counts[Status.PROBLEM],
                "warnings": counts[Status.WARNING],
            }
        )
    else:
        table = Table("looked at", "", "found, and what to do")
        styles = {Status.OK: "green", Status.WARNING: "yellow", Status.PROBLEM: "bold red"}
        for check in checks:
            advice = f"\n[bold]{escape(check.remedy)}[/bold]" if check.remedy else ""
            status = f"[{styles[check.status]}]{check.status}[/]"
            table.add_row(check.name, status, f"{escape(check.detail)}{advice}")
        console().print(table)
        console().print(f"{counts[Status.PROBLEM]} problems, {counts[Status.WARNING]} warnings")
    if counts[Status.PROBLEM]:
        raise SystemExit(1)
