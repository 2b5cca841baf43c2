"""Pricing a schedule under other conditions than it was searched for (IOS, table 3)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from typing import Any

from tvm_ios.errors import SearchError
from tvm_ios.graph.op_graph import OpGraph
from tvm_ios.progress import silent
from tvm_ios.rammer.wavefront import with_placements
from tvm_ios.schedule.first_difference import describe
from tvm_ios.schedule.schedule import Schedule, ScheduleError
from tvm_ios.schedule.stage import Strategy
from tvm_ios.search import Search

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
