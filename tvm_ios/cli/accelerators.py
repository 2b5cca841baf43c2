"""``tvm-ios schedule`` for described accelerators, and for streams of a described GPU."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

from tvm_ios.cli.frame.output import progress_bars, tell_tail
from tvm_ios.cli.options.search_options import Precision
from tvm_ios.cli.options.values import wrong_use
from tvm_ios.cli.tables.scheduled import print_schedule
from tvm_ios.files.atomic import write_atomically

if TYPE_CHECKING:
    from tvm_ios.graphturbo.cluster.placement import Placement
    from tvm_ios.models.source import ModelSource


def schedule_accelerator(
    source: ModelSource,
    device: str,
    placement: Placement,
    precision: Precision | None,
    output: Path | None,
    as_json: bool,
) -> None:
    """Plan a model for a described accelerator; print the plan, and write it to a file."""
    from tvm_ios.api.accelerator import plan_for_accelerator
    from tvm_ios.cli.tables.accelerator import print_plan

    if precision is Precision.tf32 or precision is Precision.bfloat16:
        raise wrong_use(
            "--precision", f"accelerators have float32 and float16, not {precision.value}"
        )
    half = precision is Precision.float16
    with progress_bars() as update:
        plan, end = plan_for_accelerator(
            source, device, placement=placement, half_precision=half, progress=update
        )
    tail = tell_tail(end)
    if output is not None:
        write_atomically(output, (json.dumps(plan.to_json(), indent=1) + "\n").encode())
    print_plan(plan, tail, as_json)


def schedule_streams(
    source: ModelSource, device: str, streams: int, output: Path | None, as_json: bool
) -> None:
    """Schedule instances on the streams of a described GPU; print the schedule, and write it."""
    from tvm_ios.api.accelerator import schedule_for_streams

    schedule, problem, end = schedule_for_streams(source, device, streams)
    tail = tell_tail(end)
    if output is not None:
        schedule.save(output, problem.units)
    search = {"seconds": 0.0, "states": 0, "transitions": 0, "stages_measured": 0}
    print_schedule(problem, schedule, device, search, tail, as_json)
