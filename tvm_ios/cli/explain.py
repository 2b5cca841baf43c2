"""``tvm-ios explain``: why an executable is not faster."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.markup import escape
from rich.table import Table

from tvm_ios.cli.frame import panels
from tvm_ios.cli.frame.help_pages import HelpPage
from tvm_ios.cli.frame.output import Reporting, console, print_json, reports_errors, tell_tail
from tvm_ios.cli.options.executables import program_at
from tvm_ios.cli.options.model import At, input_shapes
from tvm_ios.cli.options.search_options import DeviceName
from tvm_ios.files.byte_sizes import size_text

if TYPE_CHECKING:
    from runtime_ext.execution.foreign_build import ForeignBuild
    from runtime_ext.explain import Explanation
    from tvm_ios.explain.bounds import Region

#: Above these a warning is printed: the median over the fastest run, and the times a run that lanes
#: are stopped.
_DISTURBED, _PREEMPTED = 1.3, 0.5


PAGE = HelpPage(
    ("tvm-ios explain out/", "tvm-ios explain out/ --plot timeline.svg"),
    "What helps is said below the tables: `tvm-ios tune` for faster kernels, "
    "`tvm-ios optimize` with a wider search for idle lanes.",
)


@reports_errors
def explain(
    executable: Annotated[Path, typer.Argument(help="What `tvm-ios optimize -o` wrote.")],
    reporting: Reporting,
    repeat: Annotated[
        int, panels.running(min=1, help="Runs to profile; of each block the fastest tenth counts.")
    ] = 40,
    plot: Annotated[
        Path | None,
        panels.output(help="Draw the fastest run, lanes over time, into this .svg or .png."),
    ] = None,
    device: DeviceName = None,
    at: At = None,
) -> None:
    """Say what bounds an executable, block by block, and what would help.

    It runs on random inputs, and the time of every launch is taken. No block can be faster than
    the longest chain of kernels that need each other's results (critical path) or than all its
    kernels shared evenly by the lanes; whatever the kernels, not faster than its arithmetic and
    the memory traffic at this machine's measured peaks. The largest of these bounds, and what the
    lanes did besides, say what would help. With --device it is timed there, and the peaks are those
    that the device is described by.
    """
    from runtime_ext.execution.foreign_build import ForeignBuild
    from runtime_ext.explain import explain as find_out
    from tvm_ios.api.documents.executable import explanation_json
    from tvm_ios.measuring.timing_device import open_timing_device
    from tvm_ios.plot import plot_run, require_picture, save_picture

    if plot is not None:
        require_picture(plot)
    executable = program_at(executable)
    opened = None if device is None else open_timing_device(device)
    explanation = find_out(executable, repeat, device=opened, shapes=input_shapes(at, "--at"))
    if isinstance(explanation, ForeignBuild):
        _print_foreign(executable, explanation, reporting.as_json)
        return
    if plot is not None:
        title = (
            f"{executable.name}: {explanation.policy} on {explanation.device or 'this machine'}, "
            f"{explanation.timeline.seconds * 1e3:.3f} ms (the fastest of {repeat} warm runs)"
        )
        drawn = plot_run(
            explanation.timeline.steps,
            explanation.work.program.units,
            explanation.kinds,
            [region.units for region in explanation.blocks],
            title=title,
        )
        save_picture(drawn, plot)
    tell_tail(explanation.tail)
    if reporting.as_json:
        print_json(explanation_json(explanation))
    else:
        _print(executable, explanation)


def _print_foreign(path: Path, build: ForeignBuild, as_json: bool) -> None:
    from runtime_ext.explain import measured_latencies

    measured = {p: seconds * 1e3 for p, seconds in measured_latencies(build.notes).items()}
    if as_json:
        print_json(
            {
                "policy": build.runtime,
                "measured_ms": measured,
                "lanes": build.lanes,
                "advice": build.sentence,
            }
        )
        return
    out = console()
    out.print(
        f"[bold]{escape(str(path))}[/bold]: {build.sentence}, on {build.lanes} threads; what it "
        "launches, and so what bounds it, only that runtime can say"
    )
    out.print(_measured_text(measured))


def _measured_text(measured: Mapping[str, float]) -> str:
    latencies = (f"{policy} {ms:.3f}" for policy, ms in measured.items())
    return f"when it was made, in ms: {', '.join(latencies)}"


def _print(path: Path, explanation: Explanation) -> None:
    from tvm_ios.explain.bounds import Bound

    out, peaks = console(), explanation.peaks
    out.print(
        f"[bold]{escape(str(path))}[/bold]: {explanation.policy}, {len(explanation.names)} units "
        f"on {explanation.lanes} lanes, {explanation.latency * 1e3:.3f} ms; "
        f"{escape(explanation.device or 'this machine')} reaches "
        f"{peaks.flops / 1e9:.0f} GFLOP/s and {peaks.bandwidth / 1e9:.1f} GB/s on them"
    )
    out.print(
        f"tensors between units share {size_text(explanation.arena)}, apart they would take "
        f"{size_text(explanation.unshared)}"
        if explanation.unshared
        else "no tensors lie between units"
    )
    if explanation.measured:
        out.print(_measured_text({p: 1e3 * s for p, s in explanation.measured.items()}))
    columns = ("block", "units", "ms", *Bound, "seen/bound", "busy", "waiting", "launching")
    table = Table(*columns, caption="bounds in ms, the largest in bold; shares of the lanes' time")
    for column in table.columns[1:]:
        column.justify = "right"
    rows = [
        *((str(n), region) for n, region in enumerate(explanation.blocks)),
        ("all", explanation.total),
    ]
    for name, region in rows:
        table.add_row(
            name,
            str(len(region.units)),
            f"{region.seconds * 1e3:.3f}",
            *(_bound_cell(region, bound) for bound in Bound),
            f"{region.ratio:.2f}",
            f"{region.busy:.0%}",
            f"{region.waiting:.0%}",
            f"{region.launching:.0%}",
            end_section=name == str(len(explanation.blocks) - 1),
        )
    out.print(table)
    out.print(_hot_table(explanation))
    _print_advice(explanation)


def _bound_cell(region: Region, bound: Any) -> str:
    seconds = region.bounds.get(bound)
    text = "-" if seconds is None else f"{seconds * 1e3:.3f}"
    return f"[bold]{text}[/bold]" if bound is region.bound else text


def _hot_table(explanation: Explanation) -> Table:
    table = Table("most time", "ms", "share", "GFLOP/s", "of peak", "GB/s")
    for column in table.columns[1:]:
        column.justify = "right"
    for row in explanation.hot:
        count = len(row.units)
        speed = row.flops_per_second
        table.add_row(
            escape(explanation.names[row.units[0]]) + (f" x {count}" if count > 1 else ""),
            f"{row.seconds * 1e3:.3f}",
            f"{row.share:.0%}",
            "-" if speed is None else f"{speed / 1e9:.0f}",
            "-" if speed is None else f"{speed / explanation.peaks.flops:.0%}",
            f"{row.bytes_per_second / 1e9:.0f}",
        )
    return table


def _print_advice(explanation: Explanation) -> None:
    """Print the advice of the program, and of the blocks that matter and differ from it."""
    out = console()
    if explanation.disturbance > _DISTURBED or explanation.preemptions > _PREEMPTED:
        out.print(
            "[yellow]something else keeps this machine busy: lanes were stopped "
            f"{explanation.preemptions:.1f} times a run, their kernels stood still for "
            f"{explanation.held_up * 1e3:.2f} ms of a profiled one, and half of the runs took "
            f"{explanation.disturbance:.1f} times as long as the fastest, or longer. What follows "
            "may be about that: repeat it when nothing else runs, or with a larger "
            "--repeat[/yellow]"
        )
    overall, *advice = explanation.advice
    out.print(f"[bold]{escape(overall)}[/bold]")
    said = {overall}
    slowest = sorted(
        zip(explanation.blocks, advice, range(len(advice)), strict=True),
        key=lambda b: -b[0].seconds,
    )
    for region, sentence, number in slowest[:3]:
        if sentence not in said:
            share = region.seconds / sum(block.seconds for block in explanation.blocks)
            out.print(f"block {number} ({share:.0%} of the time): {escape(sentence)}")
