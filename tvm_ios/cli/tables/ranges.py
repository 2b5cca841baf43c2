"""A program for a range of shapes, as tables."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.markup import escape
from rich.table import Table

from tvm_ios.cli.frame.output import console, counted
from tvm_ios.files.byte_sizes import size_text
from tvm_ios.shapes.fitting import values_text

if TYPE_CHECKING:
    from tvm_ios.api.ranges import RangeResult


def print_range(result: RangeResult) -> None:
    """Print the range of shapes, the times in it, and what was compared and saved."""
    out = console()
    ranges = ", ".join(f"{name} {range_}" for name, range_ in result.symbols.items())
    out.print(
        escape(
            f"{result.model}: one program for {ranges}; {counted(result.units, 'unit')}, "
            f"{counted(result.kernels, 'kernel')}, {counted(result.lanes, 'lane')}"
        )
    )
    seconds = ", ".join(f"{phase} {time:.1f} s" for phase, time in result.seconds.items())
    out.print(escape(seconds))
    table = Table(*result.symbols, "milliseconds", "arena")
    for point in result.points:
        numbers = (str(point.values[name]) for name in result.symbols)
        table.add_row(*numbers, f"{point.latency * 1e3:.3f}", size_text(point.arena))
    out.print(table)
    for schedule in result.schedules:
        gains = ", ".join(
            f"{values_text(at)}: {ratio.median:.2f} ({ratio.low:.2f} to {ratio.high:.2f})"
            for at, ratio in schedule.points
        )
        boxes = " and ".join(
            " with ".join(f"{name} {least} to {most}" for name, (least, most) in box.items())
            for box in schedule.boxes
        )
        out.print(escape(f"{schedule.policy} in {boxes}; its time to the sequential one, {gains}"))
    if result.error is None:
        out.print("[yellow]not compared with anything[/yellow]")
    else:
        out.print(
            escape(
                f"compared with {result.reference} at {counted(len(result.compared), 'shape')}: "
                f"largest error {result.error:.1e} of the largest output"
            )
        )
    for at, reason in result.special:
        out.print(escape(f"read in another way at {values_text(at)} ({reason}): compared there"))
    if result.executable is not None:
        run = f"tvm-ios run {result.executable}"
        out.print(escape(f"executable: {result.executable}  ({run})"))
