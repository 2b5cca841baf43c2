"""Schedules laid out in time, for pictures and reports."""

from __future__ import annotations

import itertools
from collections import defaultdict
from dataclasses import replace

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from tests.fast_run import examples
from tests.random_units import Case, cases
from tvm_ios.costs.analytic import AnalyticCost
from tvm_ios.costs.stage_spans import Basis, ScheduleSpans, schedule_spans
from tvm_ios.devices.device import load_device
from tvm_ios.graph.op_graph import OpGraph, bits
from tvm_ios.schedule.schedule import Schedule
from tvm_ios.schedule.stage import Strategy


def require_sound(graph: OpGraph, schedule: Schedule, spans: ScheduleSpans) -> None:
    """Every unit is there, in its stage and after what it reads, and no row does two things."""
    assert len(spans.ends) == len(schedule.stages)
    drawn = {unit for span in spans.spans for unit in span.units}
    assert drawn == {unit for stage in schedule.stages for unit in stage.units}
    begins = (0.0, *spans.ends)
    slack = 1e-9 * (spans.ends[-1] if spans.ends else 0.0)
    position = {u: n for n, stage in enumerate(schedule.stages) for u in stage.units}
    first: dict[int, float] = {}
    last: dict[int, float] = {}
    rows: dict[int, list[tuple[float, float]]] = defaultdict(list)
    for span in spans.spans:
        stage = position[span.units[0]]
        assert begins[stage] - slack <= span.begin <= span.end <= spans.ends[stage] + slack
        for row in range(span.first_row, span.last_row + 1):
            rows[row].append((span.begin, span.end))
        for unit in span.units:
            first[unit] = min(first.get(unit, span.begin), span.begin)
            last[unit] = max(last.get(unit, span.end), span.end)
    assert max(rows, default=0) < spans.rows
    for busy in rows.values():
        busy.sort()
        assert all(a[1] <= b[0] + slack for a, b in itertools.pairwise(busy))
    for unit in range(len(graph)):
        for before in bits(graph.predecessors[unit]):
            merged = schedule.stages[position[unit]].strategy is Strategy.MERGE
            assert merged or last[before] <= first[unit] + slack


@examples(40)
@given(cases(), st.data())
def test_measured_stages_are_laid_on_their_lanes(case: Case, data: st.DataObject) -> None:
    lanes = data.draw(st.integers(1, 4))
    seconds = st.floats(1e-6, 1e-2)
    schedule = case.schedule_on(lanes)
    unit_seconds = {
        unit: tuple(data.draw(seconds) for _ in range(lanes)) for unit in range(len(case.graph))
    }
    latencies = tuple(data.draw(seconds) for _ in schedule.stages)
    timed = replace(schedule, unit_latencies=unit_seconds).with_latencies(latencies)
    spans = schedule_spans(case.graph, timed)
    require_sound(case.graph, timed, spans)
    assert spans.basis is Basis.MEASURED
    assert spans.ends[-1] == pytest.approx(sum(latencies))
    # Of each stage something ends with it.
    for end in spans.ends:
        assert any(span.end == pytest.approx(end) for span in spans.spans)
    untimed = schedule_spans(case.graph, timed.with_latencies(()), lanes=lanes)
    assert untimed.basis is Basis.WORK
    require_sound(case.graph, schedule, untimed)


@examples(25)
@given(cases())
def test_described_stages_are_simulated(case: Case) -> None:
    model = AnalyticCost(load_device("v100"))
    schedule = case.schedule_on(2)
    graph = case.graph
    stages = tuple(s for s in schedule.stages if s.strategy is not Strategy.MERGE)
    assume(stages)
    latencies = tuple(model.stage_latency(graph, stage) for stage in stages)
    timed = replace(schedule, stages=stages).with_latencies(latencies)
    spans = schedule_spans(graph, timed, model)
    assert spans.basis is Basis.SIMULATED
    assert spans.ends[-1] == pytest.approx(sum(latencies))
    for stage, latency in zip(stages, latencies, strict=True):
        ends = [end for _, _, end in model.stage_spans(graph, stage)]
        assert max(ends) == pytest.approx(latency)
