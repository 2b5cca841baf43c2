"""The command line, one command a file."""

from __future__ import annotations

from typing import Annotated

import typer

import tvm_ios
from tvm_ios.cli.bench import bench
from tvm_ios.cli.bundle import bundle
from tvm_ios.cli.doctor import doctor
from tvm_ios.cli.explain import explain
from tvm_ios.cli.help_pages import add_command
from tvm_ios.cli.memory import memory
from tvm_ios.cli.models import models
from tvm_ios.cli.optimize import optimize
from tvm_ios.cli.run import run
from tvm_ios.cli.schedule import schedule
from tvm_ios.cli.stats import stats
from tvm_ios.cli.tune import tune

app = typer.Typer(
    name="tvm-ios",
    help="Inter-operator scheduling for Apache TVM: which operators of a model run together, where "
    "and in what order.",
    epilog="Start with: tvm-ios doctor, then tvm-ios optimize squeezenet -o out/",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode="rich",
)


def _show_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"tvm-ios {tvm_ios.__version__}")
        raise typer.Exit


@app.callback()
def options(
    version: Annotated[
        bool,
        typer.Option(
            "--version", callback=_show_version, is_eager=True, help="Show the version and leave."
        ),
    ] = False,
) -> None:
    """Options of the program itself."""


COMMANDS = (models, stats, schedule, optimize, run, memory, explain, bench, doctor, tune, bundle)
for command in COMMANDS:
    add_command(app, command)
