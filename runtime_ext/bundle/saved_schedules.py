"""Schedules of files, for the units of a bundle."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from tvm_ios.graph.op_graph import OpGraph
from tvm_ios.schedule.published.imported import PublishedFile, schedule_of_file
from tvm_ios.schedule.schedule import Schedule


def saved_schedule(path: Path, graph: OpGraph) -> Schedule:
    """Read a schedule of tvm-ios, maybe for another batch, or of IOS's implementation.

    Raises ScheduleError if the file has none that fits.
    """
    read = schedule_of_file(path)
    if isinstance(read, PublishedFile):
        return read.fitted(graph).schedule
    return for_this_batch(read, graph)


def for_this_batch(schedule: Schedule, graph: OpGraph) -> Schedule:
    """The schedule for this graph, made for one that differs in its batch only.

    Raises
    ------
    ScheduleError
        If the units do not fit.
    """
    adapted = replace(schedule, fingerprint=graph.fingerprint, latencies=(), batch=graph.batch)
    adapted.validate(graph)
    return adapted
