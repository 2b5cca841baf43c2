"""Draw schedules over time, and rPrograms on their lanes."""

from __future__ import annotations

from itertools import accumulate
from typing import Any

from tvm_ios.costs.model import CostModel
from tvm_ios.costs.stage_spans import Basis, UnitSpan, schedule_spans
from tvm_ios.graph.op_graph import OpGraph
from tvm_ios.graph.operator_families import family_of
from tvm_ios.plot.boxes import Box, draw_boxes
from tvm_ios.plot.colours import COLOURS, add_legend
from tvm_ios.plot.pictures import axes
from tvm_ios.rammer.rprogram import RProgram, simulate, simulated_spans
from tvm_ios.schedule.schedule import Schedule
from tvm_ios.schedule.stage import Strategy

_HATCHES = {Strategy.MERGE: "///", Strategy.CO_SCHEDULE: ".."}
_HATCH_NAMES = {"///": "merged", "..": "co-scheduled"}


def plot_schedule(
    graph: OpGraph,
    schedule: Schedule,
    *,
    model: CostModel | None = None,
    first: int = 0,
    last: int | None = None,
    ax: Any = None,
) -> Any:
    """Draw the units of a schedule on lanes or streams, as wide as their time; idle stays white.

    ``model`` is the cost model that it was found by; that of a described device simulates when
    units run (:func:`tvm_ios.costs.stage_spans.schedule_spans`). ``first`` and ``last`` select
    stages as in a slice. Without ``ax`` a new figure is made. Raise UserError if Matplotlib is not
    installed.
    """
    laid_out = schedule_spans(graph, schedule, model)
    stages = range(len(schedule.stages))[first:last]
    begins = (0.0, *laid_out.ends)
    at, until = (begins[stages[0]], laid_out.ends[stages[-1]]) if stages else (0.0, 0.0)
    timed = laid_out.basis is not Basis.WORK
    scale = 1e3 if timed else 1 / (until - at or 1)
    strategy_of = {
        unit: schedule.stages[position].strategy
        for position in stages
        for unit in schedule.stages[position].units
    }

    def box(span: UnitSpan) -> Box:
        ops = [graph.operators[unit] for unit in span.units]
        name = "+".join(op.name.rpartition("/")[2] for op in ops)
        left, right = (span.begin - at) * scale, (span.end - at) * scale
        colour = COLOURS[family_of(ops[0].kind)]
        hatch = _HATCHES.get(strategy_of[span.units[0]], "")
        return Box(name, colour, left, right, span.first_row, span.last_row, hatch)

    boxes = [box(span) for span in laid_out.spans if span.units[0] in strategy_of]
    rows = max((box.last_row + 1 for box in boxes), default=1)
    ax = axes(ax, (13, 1.5 + 0.55 * min(rows, 12)))
    draw_boxes(ax, boxes, rows, laid_out.row_name, (until - at) * scale)
    for position in stages:
        ax.axvline((begins[position] - at) * scale, color="0.3", linewidth=0.5, linestyle=":")
    ax.set_xlabel("milliseconds" if timed else "share of the work (no times are known)")
    device = f" on {schedule.device}" if schedule.device else ""
    latency = f", {schedule.latency * 1e3:.3f} ms" if timed else ""
    ax.set_title(
        f"{graph.name}: {schedule.policy}{device}{latency} ({laid_out.basis.value})", fontsize=10
    )
    drawn = {box.hatch for box in boxes}
    families = (family_of(graph.operators[unit].kind) for unit in strategy_of)
    add_legend(ax, families, {h: name for h, name in _HATCH_NAMES.items() if h in drawn})
    return ax


def plot_placement(graph: OpGraph, *programs: RProgram, ax: Any = None) -> Any:
    """Draw the simulation of rPrograms, one after another, on lanes, with numbers of rTasks.

    Without ``ax`` a new figure is made.
    """
    lanes = len(programs[0].clocks)
    ax = axes(ax, (13, 1.5 + 0.55 * min(lanes, 12)))
    boxes: list[Box] = []
    ends = list(accumulate(simulate(programs), initial=0.0))
    for program, start in zip(programs, ends, strict=False):
        for share, begin, end in simulated_spans(graph.predecessors, program):
            op = graph.operators[share.unit]
            name = f"{op.name.rpartition('/')[2]} x {share.end - share.begin}"
            left, right = (start + begin) * 1e3, (start + end) * 1e3
            boxes.append(
                Box(name, COLOURS[family_of(op.kind)], left, right, share.lane, share.lane)
            )
    draw_boxes(ax, boxes, lanes, "lane", ends[-1] * 1e3)
    ax.set_xlabel("milliseconds")
    what = "an rProgram" if len(programs) == 1 else f"{len(programs)} rPrograms"
    ax.set_title(
        f"{graph.name}: {what} on {lanes} lanes, {ends[-1] * 1e3:.3f} ms (simulated)", fontsize=10
    )
    units = (unit for program in programs for unit in program.units)
    add_legend(ax, (family_of(graph.operators[unit].kind) for unit in units))
    return ax
