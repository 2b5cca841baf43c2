"""Spans of time in which the units of a schedule run, for pictures and reports.

A device that is described simulates its stages (:meth:`AnalyticCost.stage_spans`). A schedule that
was measured has the latencies of its stages and of its units alone on 1, 2, ... lanes: units are
laid on the lanes that lowering gives them, and the spans of a stage are stretched by one factor so
that its last unit ends with it. Of other schedules only the units' work is known, and the spans
show this instead of time.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from math import isfinite
from typing import Protocol, runtime_checkable

from tvm_ios.costs.model import CostModel
from tvm_ios.graph.op_graph import OpGraph, bits
from tvm_ios.program.lower import group_teams, recorded_latency, team_width
from tvm_ios.rammer.rprogram import RProgram, simulated_spans
from tvm_ios.schedule.placement import Placement
from tvm_ios.schedule.rkernel import RKernel
from tvm_ios.schedule.schedule import Schedule
from tvm_ios.schedule.stage import Stage, Strategy


class Basis(StrEnum):
    """The data that the widths of spans come from."""

    SIMULATED = "simulated"
    MEASURED = "measured stages, units in proportion"
    WORK = "FLOPs and bytes, not time"


@dataclass(frozen=True, slots=True)
class UnitSpan:
    """The time in which a unit, or several that one merged operator computes, runs on some rows.

    Rows are lanes or streams. Times are seconds from the begin of the schedule, or work (FLOPs and
    bytes) where no times are known.
    """

    units: tuple[int, ...]
    first_row: int
    last_row: int
    begin: float
    end: float


@dataclass(frozen=True)
class ScheduleSpans:
    """The spans of all units of a schedule, stage by stage, and the end of each stage.

    ``rows`` is the number of lanes or streams, and ``row_name`` says which of the two a row is.
    """

    spans: tuple[UnitSpan, ...]
    ends: tuple[float, ...]
    rows: int
    row_name: str
    basis: Basis


@runtime_checkable
class SimulatingModel(CostModel, Protocol):
    """A cost model that simulates when the units of a stage run."""

    def stage_spans(self, graph: OpGraph, stage: Stage) -> Sequence[tuple[int, float, float]]:
        """Return units with the begin and end of their kernels, in seconds from stage begin."""
        ...


def schedule_spans(
    graph: OpGraph, schedule: Schedule, model: CostModel | None = None, lanes: int | None = None
) -> ScheduleSpans:
    """Return the time span of each unit of a schedule.

    ``model`` is the cost model that the schedule was found by; it is used if it can simulate.
    ``lanes`` is the number of lanes, where the schedule does not say it.
    """
    if schedule.latencies and isinstance(model, SimulatingModel):
        staged = [_simulated(graph, stage, model) for stage in schedule.stages]
        return _one_after_another(staged, schedule.latencies, "stream", Basis.SIMULATED)
    lanes = lanes or _lanes(schedule)
    timed = bool(schedule.latencies) and _times_all(schedule)
    staged = [_on_lanes(graph, schedule, stage, lanes, timed) for stage in schedule.stages]
    if not schedule.latencies:
        lengths = [max((span.end for span in spans), default=0.0) for spans in staged]
        return _one_after_another(staged, lengths, "lane", Basis.WORK)
    staged = [
        _stretched(spans, seconds)
        for spans, seconds in zip(staged, schedule.latencies, strict=True)
    ]
    return _one_after_another(staged, schedule.latencies, "lane", Basis.MEASURED)


def placed_spans(
    predecessors: Sequence[int], placement: Placement, alone: Mapping[int, float], lanes: int
) -> list[UnitSpan]:
    """Return the spans of a co-scheduled stage's rTasks on their lanes (vEUs), by simulation.

    The rTasks of a unit take the same time each, and together what the unit takes ``alone``, in
    seconds or work. ``predecessors`` holds for each unit of the graph the bit set of units that it
    reads from.
    """
    tasks: dict[int, dict[int, int]] = {}
    for share in placement:
        phases = tasks.setdefault(share.unit, {})
        phases[share.phase] = max(phases.get(share.phase, 0), share.end)
    kernels: dict[int, RKernel] = {}
    for unit, phases in tasks.items():
        each = tuple(alone[unit] / len(phases) / count for count in phases.values())
        kernels[unit] = RKernel("placed", tuple(phases.values()), each, alone[unit])
    program = RProgram(tuple(tasks), kernels, placement, (0.0,) * lanes, {})
    return [
        UnitSpan((share.unit,), share.lane, share.lane, begin, end)
        for share, begin, end in simulated_spans(predecessors, program)
    ]


def _one_after_another(
    staged: Sequence[Sequence[UnitSpan]], lengths: Sequence[float], row_name: str, basis: Basis
) -> ScheduleSpans:
    at, ends, moved = 0.0, list[float](), list[UnitSpan]()
    for spans, length in zip(staged, lengths, strict=True):
        moved += [
            UnitSpan(s.units, s.first_row, s.last_row, at + s.begin, at + s.end) for s in spans
        ]
        # A stage that cannot run has infinite length; the next one starts at the same time.
        at += length if isfinite(length) else 0.0
        ends.append(at)
    rows = 1 + max((span.last_row for span in moved), default=0)
    return ScheduleSpans(tuple(moved), tuple(ends), rows, row_name, basis)


def _simulated(graph: OpGraph, stage: Stage, model: SimulatingModel) -> list[UnitSpan]:
    if stage.strategy is Strategy.MERGE:
        seconds = model.stage_latency(graph, stage)
        return [UnitSpan(stage.units, 0, 0, 0.0, seconds if isfinite(seconds) else 0.0)]
    of_group = {unit: row for row, group in enumerate(stage.groups) for unit in group}
    spans: list[UnitSpan] = []
    free: list[float] = []
    for unit, begin, end in sorted(model.stage_spans(graph, stage), key=lambda span: span[1]):
        row = of_group[unit]
        if stage.strategy is Strategy.CO_SCHEDULE:
            # One persistent kernel has no streams: units that run at once get different rows.
            row = next((r for r, until in enumerate(free) if until <= begin), len(free))
            free[row : row + 1] = [end]
        spans.append(UnitSpan((unit,), row, row, begin, end))
    return spans


def _on_lanes(
    graph: OpGraph, schedule: Schedule, stage: Stage, lanes: int, timed: bool
) -> list[UnitSpan]:
    """Return the spans of a stage on lanes, as if nothing but its units took time."""
    if stage.strategy is Strategy.MERGE:
        work = sum(_seconds(graph, schedule, unit, lanes, timed) for unit in stage.units)
        return [UnitSpan(stage.units, 0, lanes - 1, 0.0, work)]
    if stage.placement is not None:
        alone = {unit: _seconds(graph, schedule, unit, 1, timed) for unit in stage.units}
        return placed_spans(graph.predecessors, stage.placement, alone, lanes)
    recorded = recorded_latency(schedule.stages, schedule.unit_latencies, lanes) if timed else None
    free = [0.0] * lanes
    spans: list[UnitSpan] = []
    teams = group_teams(graph, stage, len(stage.groups), lanes, recorded)
    team_of = {u: team for group, team in zip(stage.groups, teams, strict=True) for u in group}
    ends: dict[int, float] = {}
    for unit in stage.units:
        team = team_of[unit]
        width = team_width((unit,), len(team), recorded)
        ready = [ends[source] for source in bits(graph.predecessors[unit]) if source in ends]
        begin = max([*(free[lane] for lane in team), *ready])
        ends[unit] = begin + _seconds(graph, schedule, unit, width, timed)
        spans.append(UnitSpan((unit,), team[0], team[width - 1], begin, ends[unit]))
        for lane in team:
            free[lane] = ends[unit]
    return spans


def _stretched(spans: Sequence[UnitSpan], seconds: float) -> list[UnitSpan]:
    """Return spans scaled so that the last one ends after the given seconds."""
    longest = max((span.end for span in spans), default=0.0)
    factor = seconds / longest if longest and isfinite(seconds) else 0.0
    return [
        UnitSpan(s.units, s.first_row, s.last_row, s.begin * factor, s.end * factor) for s in spans
    ]


def _seconds(graph: OpGraph, schedule: Schedule, unit: int, lanes: int, timed: bool) -> float:
    if timed:
        known = schedule.unit_latencies[unit]
        return known[min(lanes, len(known)) - 1]
    return (graph.operators[unit].flops + graph.operator_bytes(unit)) / lanes


def _times_all(schedule: Schedule) -> bool:
    return all(unit in schedule.unit_latencies for stage in schedule.stages for unit in stage.units)


def _lanes(schedule: Schedule) -> int:
    """Return the lanes that a schedule was made for; if unknown, the most groups of a stage."""
    measured = (len(seconds) for seconds in schedule.unit_latencies.values())
    placed = (share.lane + 1 for stage in schedule.stages for share in stage.placement or ())
    groups = (len(stage.groups) for stage in schedule.stages)
    return max([*measured, *placed], default=0) or max(groups, default=1)
