"""The rTasks of persistent kernels on the vEUs of a GPU where they were placed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from tvm_ios.costs.stage_spans import UnitSpan, placed_spans
from tvm_ios.explain.timeline import Timeline
from tvm_ios.graph.operator_families import family_of
from tvm_ios.report.document import milliseconds
from tvm_ios.schedule.first_difference import predecessors
from tvm_ios.schedule.schedule import Schedule


def inside_kernels(
    saved: Mapping[str, Any], units: Sequence[str], run: Timeline
) -> list[dict[str, Any]]:
    """Return one chart of the rTasks on vEUs in a run's persistent kernels, or an empty list.

    The chart is plain data, as pages read it, with the spans as lists. The times of rTasks are not
    measured: their placement is simulated again, and stretched to the kernel's launch. ``saved`` is
    the executable's schedule, ``units`` the names of the program's units.
    """
    schedule = Schedule.from_json(saved)
    names: list[str] = saved["units"]
    numbers = {name: number for number, name in enumerate(units)}
    rows = 0
    spans: list[list[float]] = []
    for stage in schedule.stages:
        if stage.placement is None:
            continue
        number = numbers.get("+".join(names[unit] for unit in stage.units))
        launch = next((step for step in run.steps if step.unit == number), None)
        if launch is None:
            continue
        alone = {unit: saved["flops"][unit] or 1 for unit in stage.units}
        if all(unit in schedule.unit_latencies for unit in stage.units):
            alone = {unit: schedule.unit_latencies[unit][0] for unit in stage.units}
        lanes = 1 + max(share.lane for share in stage.placement)
        placed = placed_spans(predecessors(saved["graph"]), stage.placement, alone, lanes)
        factor = (launch.end - launch.begin) / max(span.end for span in placed)
        rows = max(rows, lanes)
        for span in _joined(placed):
            begin, end = (launch.begin + factor * at for at in (span.begin, span.end))
            rows_and_times = span.first_row, span.last_row, milliseconds(begin), milliseconds(end)
            spans.append([launch.unit, *rows_and_times, span.units[0]])
    if not spans:
        return []
    kinds = [str(unit["kind"]) for unit in saved["graph"]["units"]]
    return [
        {
            "title": "inside of persistent kernels: rTasks where they were placed, in proportion",
            "ms": milliseconds(run.seconds),
            "row": "vEU",
            "rows": rows,
            "spans": spans,
            "waits": [],
            "arena": [],
            "parts": [
                {"name": name, "kind": kind, "family": family_of(kind).value}
                for name, kind in zip(names, kinds, strict=True)
            ],
        }
    ]


def _joined(spans: Sequence[UnitSpan]) -> list[UnitSpan]:
    """Merge spans of the same units and times on neighbouring rows."""
    joined: list[UnitSpan] = []
    for span in sorted(spans, key=lambda s: (s.units, s.begin, s.end, s.first_row)):
        last = joined[-1] if joined else None
        alike = last is not None and (last.units, last.begin, last.end) == (
            span.units,
            span.begin,
            span.end,
        )
        if last is not None and alike and last.last_row + 1 == span.first_row:
            joined[-1] = UnitSpan(span.units, last.first_row, span.last_row, span.begin, span.end)
        else:
            joined.append(span)
    return joined
