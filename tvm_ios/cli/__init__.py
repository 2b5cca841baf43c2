"""The command line, one command a file."""

from __future__ import annotations

import typer

from tvm_ios.cli.bench import bench
from tvm_ios.cli.models import models
from tvm_ios.cli.optimize import optimize
from tvm_ios.cli.run import run
from tvm_ios.cli.schedule import schedule
from tvm_ios.cli.stats import stats

app = typer.Typer(
    name="tvm-ios",
    help="Inter-operator scheduling for Apache TVM.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)
for command in (models, stats, schedule, optimize, run, bench):
    app.command()(command)
