"""The command line, one command a file: ``optimize.py`` has ``tvm-ios optimize``, and so on.

Options that several commands share are in ``options``, the tables that they print in ``tables``.
"""

from __future__ import annotations

from typing import Annotated

import typer

import tvm_ios
from tvm_ios.cli.frame.commands import Commands

app = typer.Typer(
    name="tvm-ios",
    cls=Commands,
    help="Inter-operator scheduling for Apache TVM: which operators of a model run together, where "
    "and in what order.",
    epilog="Start with: tvm-ios doctor, then tvm-ios optimize squeezenet -o out/",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode="rich",
)


def _show_version(asked: bool) -> None:
    if asked:
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
