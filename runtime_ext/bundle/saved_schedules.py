"""Read saved schedules for the units of a bundle."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from tvm_ios.graph.op_graph import OpGraph
from tvm_ios.schedule.published.imported import PublishedFile, schedule_of_file
from tvm_ios.schedule.schedule import Schedule


def saved_schedule(path: Path, graph: OpGraph) -> Schedule:
    """Read a schedule of tvm-ios, also for another batch, or of IOS's implementation.

    Raise ScheduleError if the file has none that fits.
    """
    read = schedule_of_file(path)
    if isinstance(read, PublishedFile):
        return read.fitted(graph).schedule
    return for_this_batch(read, graph)


def for_this_batch(schedule: Schedule, graph: OpGraph) -> Schedule:
    """Return a schedule adapted to this graph from one of a graph that differs in its batch only.

    Raise ScheduleError if the units do not fit.
    """
    untimed = schedule.with_latencies(())
    adapted = replace(untimed, fingerprint=graph.fingerprint, batch=graph.batch)
    adapted.validate(graph)
    return adapted
