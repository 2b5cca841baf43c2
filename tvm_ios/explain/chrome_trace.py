"""A run as a trace that Perfetto and Chrome show (``ui.perfetto.dev``, ``chrome://tracing``).

The format is Chrome's JSON, "Trace Event Format": each run is a process, each lane a thread, each
launch a slice with its unit's name and its operator as category. What a lane waited for is a slice
``wait``, and an arrow (a flow) leads from the launch that it waited for to the one that went on.
The bytes of the arena in use are a counter.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tvm_ios.explain.arena_use import arena_use
from tvm_ios.explain.tasks import Work
from tvm_ios.explain.timeline import Timeline
from tvm_ios.explain.waits import awaited_launches
from tvm_ios.program.program import Launch, Program


@dataclass(frozen=True)
class TracedRun:
    """A run to show as one process of the trace.

    ``title`` is the name of the process, ``kinds`` has the operator of each unit (empty if
    unknown), and ``row`` is the word for a lane: "lane" or "stream".
    """

    title: str
    work: Work
    run: Timeline
    kinds: Sequence[str] = ()
    row: str = "lane"


def chrome_trace(
    runs: Sequence[TracedRun], facts: Mapping[str, object] | None = None
) -> dict[str, Any]:
    """Return the trace of some runs as plain data for a ``.json`` file.

    Each run becomes a process, and all begin at time 0. ``facts`` are stored beside the events,
    such as the model and the machine.
    """
    events = [event for process, run in enumerate(runs, 1) for event in _events(process, run)]
    return {"traceEvents": events, "displayTimeUnit": "ms", "otherData": dict(facts or {})}


def _events(process: int, traced: TracedRun) -> Iterable[dict[str, Any]]:
    program = traced.work.program
    yield _named("process_name", process, 0, traced.title)
    yield {**_event("M", process, 0), "name": "process_sort_index", "args": {"sort_index": process}}
    for lane in range(len(program.lanes)):
        yield _named("thread_name", process, lane + 1, f"{traced.row} {lane}")
    yield from _slices(process, traced)
    yield from _flows(process, program, traced.run)
    for second, nbytes in arena_use(traced.work, traced.run):
        counter = {"name": "arena in use", "args": {"bytes": nbytes}}
        yield {**_event("C", process, 0), "ts": _microseconds(second), **counter}


def _slices(process: int, traced: TracedRun) -> Iterable[dict[str, Any]]:
    program = traced.work.program
    lanes = [[item for item in lane if isinstance(item, Launch)] for lane in program.lanes]
    for step in traced.run.steps:
        launch = lanes[step.lane][step.place]
        if step.ready > step.free:
            yield _slice(process, step.lane, "wait", "wait", step.free, step.ready, {})
        kind = traced.kinds[step.unit] if traced.kinds else ""
        details = {
            "unit": step.unit,
            "kernel": program.kernels[launch.kernel],
            "tiles": f"{launch.begin} to {launch.end}",
        }
        if step.held_up:
            details["held up"] = f"{_microseconds(step.held_up):.0f} us"
        if step.runner != step.lane:
            details["run by"] = f"{traced.row} {step.runner}"
        name = program.units[step.unit]
        category = kind or "unit"
        yield _slice(process, step.lane, name, category, step.begin, step.end, details)


def _flows(process: int, program: Program, run: Timeline) -> Iterable[dict[str, Any]]:
    steps = {(step.lane, step.place): step for step in run.steps}
    for number, wait in enumerate(awaited_launches(program, run)):
        source = steps[wait.lane, wait.place]
        target = steps[wait.by_lane, wait.by_place]
        # Numbers are the whole trace's. An arrow begins inside of a slice: 1 ns before its end.
        flow = {"name": "wait", "cat": "wait", "id": process * 1_000_000 + number}
        last = max(_microseconds(source.begin), round(_microseconds(source.end) - 1e-3, 3))
        yield {**_event("s", process, wait.lane + 1), "ts": last, **flow}
        begin = _microseconds(target.begin)
        yield {**_event("f", process, wait.by_lane + 1), "ts": begin, "bp": "e", **flow}


def _slice(
    process: int,
    lane: int,
    name: str,
    category: str,
    begin: float,
    end: float,
    details: dict[str, Any],
) -> dict[str, Any]:
    ts = _microseconds(begin)
    span = {"ts": ts, "dur": round(_microseconds(end) - ts, 3)}
    return {
        **_event("X", process, lane + 1),
        **span,
        "name": name,
        "cat": category,
        "args": details,
    }


def _named(what: str, process: int, thread: int, name: str) -> dict[str, Any]:
    return {**_event("M", process, thread), "name": what, "args": {"name": name}}


def _event(phase: str, process: int, thread: int) -> dict[str, Any]:
    return {"ph": phase, "pid": process, "tid": thread}


def _microseconds(seconds: float) -> float:
    return round(seconds * 1e6, 3)
