"""Doing one task: from its content to its result, both plain data."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path
from types import MappingProxyType
from typing import Any

from tvm_ios.api.units import operators_and_tail
from tvm_ios.contest.rules import SECOND_CHOICE
from tvm_ios.errors import SearchError, UserError
from tvm_ios.graph.op_graph import OpGraph
from tvm_ios.graphturbo.instance_memory import schedule_peak
from tvm_ios.memory.comparison import compare_schedulers
from tvm_ios.memory.operators import with_biases
from tvm_ios.memory.problem import memory_problem
from tvm_ios.progress import silent
from tvm_ios.rammer.wavefront import with_placements
from tvm_ios.schedule.first_difference import describe
from tvm_ios.schedule.schedule import Schedule, ScheduleError
from tvm_ios.schedule.stage import Strategy
from tvm_ios.search import Search
from tvm_ios.sweep.searches import search_of, source_of

#: The result's schedule, which is no column of tables.
SCHEDULE = "schedule"

_SEQUENTIAL = "sequential"


def perform(
    content: Mapping[str, Any], files: Mapping[str, Path], schedule: Mapping[str, Any] | None
) -> dict[str, Any]:
    """Do a task, and return its result by column: milliseconds, KiB, counts.

    ``content`` and ``files`` are those of a :class:`tvm_ios.sweep.content.Job`, ``schedule`` is the
    one that the needed task has found, as JSON. A search stores its schedule under
    :data:`SCHEDULE`. Raise UserError if the task cannot be done.
    """
    return _KINDS[content["kind"]](content, files, schedule)


def _search(
    content: Mapping[str, Any], files: Mapping[str, Path], _: Mapping[str, Any] | None
) -> dict[str, Any]:
    with search_of(content, files) as search:
        found = search.find(content["policy"], priced=True)
        result = _cost(search, found.schedule)
    counted = found.statistics
    return {
        **result,
        "search_seconds": None if counted is None else counted.seconds,
        "states": None if counted is None else counted.states,
        "transitions": None if counted is None else counted.transitions,
        "stages_measured": None if counted is None else counted.stages_measured,
        "complete": counted is None or counted.complete,
        SCHEDULE: found.schedule.to_json(search.problem.units),
    }


def _crossing(
    content: Mapping[str, Any], files: Mapping[str, Path], schedule: Mapping[str, Any] | None
) -> dict[str, Any]:
    assert schedule is not None
    with search_of(content, files) as search:
        return _cost(search, crossed(schedule, search))


def _cost(search: Search, schedule: Schedule) -> dict[str, Any]:
    """Return the cost of a schedule: of its stages, and of its program if programs can be run."""
    units = search.problem.units
    schedule.validate(units)
    result: dict[str, Any] = {
        "graph_batch": units.batch,
        "units": len(units),
        "stages": len(schedule.stages),
        "latency_ms": schedule.latency * 1e3 if schedule.latencies else None,
        "memory_kib": schedule_peak(units, schedule, search.problem.operators) / 1024,
    }
    if (programs := search.costs.programs) is None:
        return result
    if refusal := programs.refusal(schedule):
        raise UserError(refusal)
    schedules = {"program": schedule, _SEQUENTIAL: search.find(_SEQUENTIAL).schedule}
    if schedules["program"].content == schedules[_SEQUENTIAL].content:
        del schedules[_SEQUENTIAL]
    samples = programs.contest(schedules, SECOND_CHOICE, lambda _: None)
    ours = samples["program"]
    pairs = zip(ours, samples.get(_SEQUENTIAL, ours), strict=True)
    return {
        **result,
        "program_ms": statistics.median(ours) * 1e3,
        "to_sequential": statistics.median(a / b for a, b in pairs),
    }


def _memory(
    content: Mapping[str, Any], files: Mapping[str, Path], _: Mapping[str, Any] | None
) -> dict[str, Any]:
    graph = with_biases(operators_and_tail(source_of(content, files))[0])
    name, limit = content["scheduler"], content["time_limit"]
    (row,) = compare_schedulers(memory_problem(graph), (name,), limit)
    return {
        "graph_batch": graph.batch,
        "units": len(graph),
        "peak_kib": row.ordered.peak / 1024,
        "bound_kib": row.ordered.bound / 1024,
        "arena_kib": row.arena.plan.nbytes / 1024,
        "proof": row.ordered.proven,
        "search_seconds": row.ordered.seconds,
    }


_KINDS: Mapping[str, Callable[..., dict[str, Any]]] = MappingProxyType(
    {"search": _search, "crossing": _crossing, "memory": _memory}
)


#: The keys of a described unit that do not depend on extents.
_WIRING = ("kind", "reads")


def crossed(data: Mapping[str, Any], search: Search) -> Schedule:
    """Price the stages of a schedule for the same network with another batch, shape or device.

    ``data`` is a schedule as JSON, ``search`` has the problem and the costs to price it for.
    Latencies and kernels are dropped, and rTasks of co-scheduled stages are placed again. Raise
    ScheduleError if the graph is wired otherwise, or the schedule runs sub-graphs in instances;
    SearchError if it places rTasks and the costs have none.
    """
    schedule = _rewired(Schedule.from_json(data), search.problem.units)
    if any(stage.strategy is Strategy.CO_SCHEDULE for stage in schedule.stages):
        rtasks, units = search.costs.rtasks, search.problem.units
        if rtasks is None:
            raise SearchError(
                f"the schedule of {schedule.policy} places rTasks, of which the cost "
                f"{search.costs.name!r} tells nothing: sweep this policy without crossings"
            )
        rtasks.prepare(silent)
        programs, kernels = partial(rtasks.program, units), partial(rtasks.kernels, units)
        schedule = with_placements(schedule, programs, kernels)
    return search.priced(search.costs.completed(schedule))


def _rewired(schedule: Schedule, graph: OpGraph) -> Schedule:
    """Return a schedule's stages alone, over another graph that must be wired equally."""
    if schedule.instances is not None:
        raise ScheduleError(
            f"the schedule of {schedule.policy} runs sub-graphs in instances, which are made for "
            "one batch and one machine: sweep this policy without crossings"
        )
    ours, theirs = describe(graph)["units"], schedule.described["units"]
    for number, (unit, other) in enumerate(zip(ours, theirs, strict=False)):
        if any(unit[key] != other[key] for key in _WIRING):
            name = graph.operators[number].name
            raise ScheduleError(
                f"the schedule is of a graph that is wired otherwise from unit {name!r} on: the "
                "model becomes other units with this batch or these shapes"
            )
    if len(ours) != len(theirs):
        raise ScheduleError(f"the schedule is of {len(theirs)} units, and here are {len(ours)}")
    return replace(
        schedule,
        fingerprint=graph.fingerprint,
        batch=graph.batch,
        unit_latencies={},
        kernels={},
    ).with_latencies(())
