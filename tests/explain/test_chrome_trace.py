"""Traces: as the format wants them, and with all of a run in them."""

from __future__ import annotations

import json
import os
import shutil
from collections import defaultdict
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from hypothesis import given

from tests.explain.simulated import simulations
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


def _trace_processor() -> str | None:
    return os.environ.get("TRACE_PROCESSOR") or shutil.which("trace_processor_shell")


@pytest.mark.slow
@pytest.mark.skipif(_trace_processor() is None, reason="Perfetto's trace_processor_shell is needed")
@given(simulations())
def test_perfetto_reads_all_of_it(
    tmp_path_factory: pytest.TempPathFactory, simulation: Simulation
) -> None:
    perfetto = pytest.importorskip("perfetto.trace_processor")
    _, program, runs = simulation
    path = Path(tmp_path_factory.mktemp("trace")) / "trace.json"
    trace = trace_of(program, runs[:1])
    path.write_text(json.dumps(trace))
    config = perfetto.TraceProcessorConfig(bin_path=_trace_processor())
    phases = [event["ph"] for event in trace["traceEvents"]]
    with perfetto.TraceProcessor(trace=str(path), config=config) as processor:
        for table, phase in (("slice", "X"), ("flow", "s"), ("counter", "C")):
            (row,) = processor.query(f"select count(*) as n from {table}")
            assert row.n == phases.count(phase), table
        (row,) = processor.query(
            "select count(*) as n from stats where severity = 'error' and value"
        )
        assert row.n == 0
