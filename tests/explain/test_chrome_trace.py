"""Traces: as the format wants them, and with all of a run in them."""

from __future__ import annotations

import json
from collections import defaultdict
from typing import Any

import jsonschema
import pytest
from hypothesis import given, settings

from tests.explain.simulated import simulations
from tests.page_tools import HOW, has_trace_processor, query_traces
from tests.random_units import Case
from tvm_ios.explain.chrome_trace import TracedRun, chrome_trace
from tvm_ios.explain.tasks import find_work
from tvm_ios.explain.timeline import Timeline
from tvm_ios.explain.waits import awaited_launches
from tvm_ios.program.program import Program

Simulation = tuple[Case, Program, list[Timeline]]

_NUMBER, _NATURAL, _TEXT = {"type": "number"}, {"type": "integer", "minimum": 0}, {"type": "string"}


def _event(phase: str, **fields: Any) -> dict[str, Any]:
    properties = {"ph": {"const": phase}, "pid": _NATURAL, "tid": _NATURAL, **fields}
    return {
        "type": "object",
        "properties": properties,
        "required": list(properties),
        "additionalProperties": False,
    }


#: Chrome's Trace Event Format, of the phases that are used here.
SCHEMA = {
    "type": "object",
    "required": ["traceEvents"],
    "properties": {
        "displayTimeUnit": {"enum": ["ms", "ns"]},
        "otherData": {"type": "object"},
        "traceEvents": {
            "type": "array",
            "items": {
                "oneOf": [
                    _event("M", name=_TEXT, args={"type": "object"}),
                    _event(
                        "X",
                        name=_TEXT,
                        cat=_TEXT,
                        ts={"type": "number", "minimum": 0},
                        dur={"type": "number", "minimum": 0},
                        args={"type": "object"},
                    ),
                    _event("s", name=_TEXT, cat=_TEXT, id=_NATURAL, ts=_NUMBER),
                    _event("f", name=_TEXT, cat=_TEXT, id=_NATURAL, ts=_NUMBER, bp={"const": "e"}),
                    _event(
                        "C",
                        name=_TEXT,
                        ts=_NUMBER,
                        args={"type": "object", "additionalProperties": _NUMBER},
                    ),
                ]
            },
        },
    },
}


def trace_of(program: Program, runs: list[Timeline]) -> dict[str, Any]:
    work = find_work(program)
    return chrome_trace([TracedRun(f"run {n}", work, run) for n, run in enumerate(runs)], {"a": 1})


@given(simulations())
def test_the_trace_is_of_the_format_and_has_the_whole_run(simulation: Simulation) -> None:
    _, program, runs = simulation
    trace = trace_of(program, runs[:2])
    jsonschema.validate(json.loads(json.dumps(trace)), SCHEMA)
    for process, run in enumerate(runs[:2], 1):
        events = [event for event in trace["traceEvents"] if event["pid"] == process]
        slices = [e for e in events if e["ph"] == "X" and e["name"] != "wait"]
        seen = [(e["tid"] - 1, e["name"], e["ts"], e["ts"] + e["dur"]) for e in slices]
        ran = [(s.lane, program.units[s.unit], s.begin * 1e6, s.end * 1e6) for s in run.steps]
        assert [span[:2] for span in seen] == [span[:2] for span in ran]
        for got, true in zip(seen, ran, strict=True):
            assert got[2:] == pytest.approx(true[2:], abs=1e-2)
        threads = {e["tid"] for e in events if e["name"] == "thread_name"}
        assert threads == set(range(1, len(program.lanes) + 1))
        waited = sum(e["dur"] for e in events if e["name"] == "wait" and e["ph"] == "X")
        true_wait = sum(step.ready - step.free for step in run.steps) * 1e6
        assert waited == pytest.approx(true_wait, abs=1)


@given(simulations())
def test_arrows_begin_and_end_inside_of_the_slices_they_join(simulation: Simulation) -> None:
    _, program, runs = simulation
    events = trace_of(program, runs[:1])["traceEvents"]
    slices: dict[int, list[tuple[float, float]]] = defaultdict(list)
    for event in events:
        if event["ph"] == "X" and event["name"] != "wait":
            slices[event["tid"]].append((event["ts"], event["ts"] + event["dur"]))
    starts = {e["id"]: e for e in events if e["ph"] == "s"}
    ends = {e["id"]: e for e in events if e["ph"] == "f"}
    assert starts.keys() == ends.keys()
    assert len(starts) == len(awaited_launches(program, runs[0]))
    for number, start in starts.items():
        for event in (start, ends[number]):
            assert any(a <= event["ts"] <= b for a, b in slices[event["tid"]])
        assert start["tid"] != ends[number]["tid"]


QUERIES = (
    """select p.name as process, t.name as thread, s.ts, s.dur, s.name, s.category
    from slice s join thread_track k on s.track_id = k.id join thread t using (utid)
    join process p using (upid)""",
    """select a.name as source, a.ts + a.dur as source_end, b.name as target, b.ts as target_begin
    from flow f join slice a on f.slice_out = a.id join slice b on f.slice_in = b.id""",
    """select p.name as process, k.name, c.ts, c.value
    from counter c join process_counter_track k on c.track_id = k.id join process p using (upid)""",
    "select name, value from stats where severity = 'error' and value",
)


@pytest.mark.slow
@pytest.mark.skipif(not has_trace_processor(), reason=f"no trace processor: {HOW}")
@settings(max_examples=4, deadline=None)
@given(simulations())
def test_perfetto_reads_all_of_it(
    tmp_path_factory: pytest.TempPathFactory, simulation: Simulation
) -> None:
    """What its own trace processor has in its tables is what the file says."""
    _, program, runs = simulation
    path = tmp_path_factory.mktemp("trace") / "trace.json"
    trace = trace_of(program, runs[:2])
    path.write_text(json.dumps(trace))
    ((slices, flows, counters, faults),) = query_traces([path], QUERIES)
    assert faults == []
    events = trace["traceEvents"]
    processes, threads = named(events, "process_name"), named(events, "thread_name")
    assert rows(slices) == sorted(
        (
            processes[e["pid"], 0],
            threads[e["pid"], e["tid"]],
            round(e["ts"] * 1e3),
            round(e["dur"] * 1e3),
            e["name"],
            e["cat"],
        )
        for e in events
        if e["ph"] == "X"
    )
    assert rows(counters) == sorted(
        (processes[e["pid"], 0], f"{e['name']} bytes", round(e["ts"] * 1e3), e["args"]["bytes"])
        for e in events
        if e["ph"] == "C"
    )
    waits = [(run, wait) for run in runs[:2] for wait in awaited_launches(program, run)]
    assert rows(flows) == sorted(joined(program, run, wait) for run, wait in waits)


def joined(program: Program, run: Timeline, wait: Any) -> tuple[Any, ...]:
    """The launch that was waited for and the one that went on: units and nanoseconds."""
    steps = {(step.lane, step.place): step for step in run.steps}
    source, target = steps[wait.lane, wait.place], steps[wait.by_lane, wait.by_place]
    names = program.units
    return (
        names[source.unit],
        round(source.end * 1e9),
        names[target.unit],
        round(target.begin * 1e9),
    )


def rows(table: list[dict[str, Any]]) -> list[tuple[Any, ...]]:
    return sorted(tuple(row.values()) for row in table)


def named(events: list[dict[str, Any]], what: str) -> dict[tuple[int, int], str]:
    return {(e["pid"], e["tid"]): e["args"]["name"] for e in events if e["name"] == what}
