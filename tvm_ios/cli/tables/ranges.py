"""A program for a range of shapes, as tables."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from rich.markup import escape
from rich.table import Table

from tvm_ios.cli.frame.output import console, counted
from tvm_ios.files.byte_sizes import size_text
from tvm_ios.schedule.named_kernels import kernels_text
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
    if result.forms:
        out.print(f"kernels of a name: {kernels_text(result.forms)}")
    if result.left_out:
        out.print(escape(result.left_out))
    for text in schedule_texts(result.to_json()["schedules"]):
        out.print(escape(text))
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


def schedule_texts(schedules: Sequence[Mapping[str, Any]]) -> list[str]:
    """Return for each schedule of a range where the program has it, and what it gains there.

    They are plain data, of :meth:`tvm_ios.api.range_schedules.KeptSchedule.to_json`.
    """
    texts: list[str] = []
    for schedule in schedules:
        boxes = "; ".join(
            ", ".join(f"{name} {least}..{most}" for name, (least, most) in box.items())
            for box in schedule["boxes"]
        )
        ratios = sorted(point["ratio"] for point in schedule["points"])
        gains = f"{ratios[0]:.2f}" + (f" to {ratios[-1]:.2f}" if len(ratios) > 1 else "")
        kernels = f" with {kernels_text(forms)}" if (forms := schedule.get("forms")) else ""
        texts.append(f"{schedule['policy']}{kernels} for {boxes}: {gains} of the sequential time")
    return texts
