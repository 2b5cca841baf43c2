"""Pictures of schedules and of runs (needs matplotlib, the ``notebook`` extra)."""

from __future__ import annotations

import io
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from tvm_ios.errors import UserError
from tvm_ios.files.atomic import require_writable, write_atomically
from tvm_ios.graph.op_graph import OpGraph
from tvm_ios.rammer.rprogram import RProgram, simulated_spans
from tvm_ios.schedule.schedule import Schedule
from tvm_ios.schedule.stage import Strategy


def require_picture(path: Path) -> None:
    """Find out before long work whether a picture can be drawn and written here.

    Raises
    ------
    UserError
        If it has another name than pictures have, or matplotlib is not installed.
    OSError
        If it could not be written.
    """
    if path.suffix not in (".svg", ".png"):
        raise UserError(f"{path} cannot be drawn: its name must end in .svg or .png")
    require_writable(path)
    _pyplot()


def save_picture(ax: Any, path: Path) -> None:
    """Write the figure of some axes, whole or not at all."""
    drawn = io.BytesIO()
    ax.figure.savefig(drawn, format=path.suffix[1:])
    write_atomically(path, drawn.getvalue())


def plot_schedule(
    graph: OpGraph, schedule: Schedule, *, first: int = 0, last: int | None = None, ax: Any = None
) -> Any:
    """Draw stages from left to right, the groups of a stage one above another.

    Parameters
    ----------
    graph
        The graph of units.
    schedule
        A schedule of it; stages are as wide as their latencies, if it has them.
    first, last
        The stages to draw, as in a slice.
    ax
        Matplotlib axes to draw into; a new figure otherwise.

    Returns
    -------
    matplotlib.axes.Axes

    Raises
    ------
    UserError
        If matplotlib is not installed.
    """
    ax = _axes(ax, (12, 3.2))
    stages = schedule.stages[first:last]
    latencies = schedule.latencies[first:last] or (1.0,) * len(stages)
    timed = bool(schedule.latencies)
    widths = [seconds * 1e3 if timed else 1.0 for seconds in latencies]
    at = 0.0
    for stage, width in zip(stages, widths, strict=True):
        for row, group in enumerate(stage.groups):
            share = width / len(group)
            for place, unit in enumerate(group):
                op = graph.operators[unit]
                left = at + place * share
                style: dict[str, Any] = {
                    "facecolor": _color(op.kind),
                    "edgecolor": "white",
                    "linewidth": 1.0,
                }
                if stage.strategy is Strategy.MERGE:
                    style["hatch"] = "///"
                elif stage.strategy is Strategy.CO_SCHEDULE:
                    style["hatch"] = ".."
                ax.broken_barh([(left, share)], (row - 0.4, 0.8), **style)
                _label(ax, op.name, left + share / 2, row, share / sum(widths))
        at += width
        ax.axvline(at, color="0.3", linewidth=0.6, linestyle=":")
    rows = max(len(stage.groups) for stage in stages)
    ax.set_yticks(range(rows), [f"group {row}" for row in range(rows)])
    ax.set_xlim(0, at)
    ax.set_ylim(-0.6, rows - 0.4)
    ax.set_xlabel("milliseconds" if timed else "stages")
    ax.set_title(f"{graph.name}: {schedule.policy} (hatched: merged, dotted: co-scheduled)")
    return ax


def plot_placement(graph: OpGraph, program: RProgram, *, ax: Any = None) -> Any:
    """Draw what every lane does in the simulation of an rProgram; numbers are rTasks.

    Parameters
    ----------
    graph
        The graph of units.
    program
        An rProgram with its placement.
    ax
        Matplotlib axes to draw into; a new figure otherwise.
    """
    ax = _axes(ax, (12, 3.2))
    total = max(program.clocks)
    for share, begin, end in simulated_spans(graph, program):
        op = graph.operators[share.unit]
        bar = [(begin * 1e3, (end - begin) * 1e3)]
        ax.broken_barh(bar, (share.lane - 0.4, 0.8), facecolor=_color(op.name), edgecolor="white")
        text = f"{op.name.rpartition('/')[2]} x {share.end - share.begin}"
        _label(ax, text, (begin + end) / 2 * 1e3, share.lane, (end - begin) / total)
    lanes = len(program.clocks)
    ax.set_yticks(range(lanes), [f"lane {lane}" for lane in range(lanes)])
    ax.set_xlabel("milliseconds")
    ax.set_title(f"{graph.name}: an rProgram on {lanes} lanes")
    return ax


def plot_profile(spans: Sequence[Any], names: Sequence[str], *, ax: Any = None) -> Any:
    """Draw what every lane did in one run.

    Parameters
    ----------
    spans
        What ``Session.profile`` returned: lane, begin and end in seconds.
    names
        For each span the unit it worked for.
    ax
        Matplotlib axes to draw into; a new figure otherwise.
    """
    ax = _axes(ax, (12, 2.2))
    for span, name in zip(spans, names, strict=True):
        begin, width = span.begin * 1e3, (span.end - span.begin) * 1e3
        bar = [(begin, width)]
        ax.broken_barh(bar, (span.lane - 0.4, 0.8), facecolor=_color(name), edgecolor="white")
    lanes = max(span.lane for span in spans) + 1
    ax.set_yticks(range(lanes), [f"lane {lane}" for lane in range(lanes)])
    ax.set_xlabel("milliseconds")
    return ax


def plot_blocks(steps: Sequence[Any], blocks: Sequence[Sequence[int]], *, ax: Any = None) -> Any:
    """Draw what every lane did in one run, a bar a launch, coloured by block.

    Parameters
    ----------
    steps
        :attr:`tvm_ios.explain.timeline.Timeline.steps`.
    blocks
        The units of each block, whose numbers stand above where they begin.
    ax
        Matplotlib axes to draw into; a new figure otherwise.
    """
    block_of = {unit: number for number, units in enumerate(blocks) for unit in units}
    # Two digits give neighbours different colours.
    names = [f"block {block_of[step.unit]:02}" for step in steps]
    ax = plot_profile(steps, names, ax=ax)
    top = max(step.lane for step in steps) + 0.45
    for number, units in enumerate(blocks):
        begins = [step.begin for step in steps if step.unit in units]
        if begins:
            ax.text(min(begins) * 1e3, top, str(number), fontsize=7, va="bottom")
    ax.set_ylim(-0.6, top + 0.35)
    return ax


def plot_footprints(
    curves: Mapping[str, Sequence[int]], *, budget: int | None = None, ax: Any = None
) -> Any:
    """Draw the memory of orders of one graph over time.

    Parameters
    ----------
    curves
        For each order its name and its stable footprints, in bytes.
    budget
        Bytes that there are, drawn as a line.
    ax
        Matplotlib axes to draw into; a new figure otherwise.
    """
    ax = _axes(ax, (12, 3.2))
    for name, footprints in curves.items():
        kib = [nbytes / 1024 for nbytes in footprints]
        label = f"{name}: at most {max(kib, default=0.0):,.0f} KiB"
        line = ax.step(range(len(kib)), kib, where="mid", linewidth=1.0, label=label)[0]
        ax.fill_between(range(len(kib)), kib, step="mid", alpha=0.15, color=line.get_color())
    if budget is not None:
        ax.axhline(budget / 1024, color="0.3", linestyle=":", label=f"budget: {budget / 1024:,.0f}")
    ax.set_ylim(0)
    ax.set_xlabel("operators executed")
    ax.set_ylabel("KiB")
    ax.legend(fontsize=8)
    return ax


def _label(ax: Any, name: str, x: float, y: float, share: float) -> None:
    """The last part of a name, upright in a narrow box, left out in a very narrow one."""
    if share > 0.008:
        short = name.rpartition("/")[2]
        rotation = 0 if share > 0.012 * len(short) else 90
        ax.text(x, y, short, ha="center", va="center", fontsize=6, rotation=rotation)


def _axes(ax: Any, size: tuple[float, float]) -> Any:
    if ax is not None:
        return ax
    return _pyplot().subplots(figsize=size, layout="constrained")[1]


def _pyplot() -> Any:
    try:
        from matplotlib import pyplot
    except ImportError as error:
        raise UserError("pictures need matplotlib: pip install 'tvm-ios[notebook]'") from error
    return pyplot


def _color(kind: str) -> str:
    """One of ten light colours, the same for the same kind in every picture."""
    palette = "#8dd3c7 #ffffb3 #bebada #fb8072 #80b1d3 #fdb462 #b3de69 #fccde5 #d9d9d9 #bc80bd"
    colors = palette.split()
    return colors[sum(map(ord, kind)) % len(colors)]
