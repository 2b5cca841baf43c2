"""Options that commands which search have in common."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer


class MeasureMode(StrEnum):
    """Which stages are measured."""

    lazy = "lazy"
    full = "full"


Lanes = Annotated[
    int | None, typer.Option(min=1, help="Threads; all CPUs of this process by default.")
]
TuningLog = Annotated[
    Path | None, typer.Option("--log", help="A MetaSchedule database (folder) of tuned kernels.")
]
Measure = Annotated[
    MeasureMode, typer.Option(help="lazy: stages that may matter; full: all of them.")
]
MaxMeasurements = Annotated[int | None, typer.Option(help="Stages to measure, at most.")]
TimeLimit = Annotated[float | None, typer.Option(help="Seconds of a policy's search, at most.")]
OperatorsAGroup = Annotated[int, typer.Option("-r", min=1, help="Units a group, at most.")]
GroupsAStage = Annotated[int, typer.Option("-s", min=1, help="Groups a stage, at most.")]
MaxBlock = Annotated[int, typer.Option(min=1, help="Units a block, at most.")]
