"""``tvm-ios trace``: a run of an executable for Perfetto."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich.markup import escape

from tvm_ios.cli.frame import panels
from tvm_ios.cli.frame.help_pages import HelpPage
from tvm_ios.cli.frame.output import Reporting, console, print_json, reports_errors, tell_tail
from tvm_ios.cli.options.executables import program_at
from tvm_ios.cli.options.model import At, input_shapes
from tvm_ios.cli.options.search_options import DeviceName

PAGE = HelpPage(
    ("tvm-ios trace out/ -o trace.json", "tvm-ios trace out/ -o trace.json --sequential"),
    "Open the file at ui.perfetto.dev.",
)


@reports_errors
def trace(
    executable: Annotated[Path, typer.Argument(help="What `tvm-ios optimize -o` wrote.")],
    reporting: Reporting,
    output: Annotated[Path, panels.output("-o", "--output", help="The .json file.")] = Path(
        "trace.json"
    ),
    sequential: Annotated[
        bool,
        panels.running("--sequential", help="Trace the same kernels one after another, too."),
    ] = False,
    repeat: Annotated[
        int, panels.running(min=1, help="Runs to profile; the fastest one is written.")
    ] = 40,
    device: DeviceName = None,
    at: At = None,
) -> None:
    """Write a run of an executable as a trace that Perfetto shows.

    Lanes are threads. Launches are slices with the names of their units, and their operators as
    category. Where a lane waited there is a slice, and an arrow from the launch that it waited for.
    A counter has the bytes of the arena in use. Inputs are random.
    """
    from runtime_ext.explain import explain
    from tvm_ios.api.documents.executable import require_ours
    from tvm_ios.api.trace import require_trace, trace_executable
    from tvm_ios.measuring.timing_device import open_timing_device

    require_trace(output)
    executable = program_at(executable)
    opened = None if device is None else open_timing_device(device)
    explanation = require_ours(
        executable,
        explain(
            executable, repeat, device=opened, beside=sequential, shapes=input_shapes(at, "--at")
        ),
    )
    trace_executable(explanation, output)
    tell_tail(explanation.tail)
    ms = explanation.timeline.seconds * 1e3
    if reporting.as_json:
        print_json({"trace": str(output), "latency_ms": ms})
    else:
        console().print(f"{escape(str(output))}: a run of {ms:.3f} ms; open it at ui.perfetto.dev")
