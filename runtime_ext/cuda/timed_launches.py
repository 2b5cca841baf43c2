"""Measure the begin and end times of a run's launches, by the GPU's own clock."""

from __future__ import annotations

from typing import Any

from runtime_ext.cuda.event_graph import EventGraph
from runtime_ext.cuda.nvidia.driver import OpenDevice, call, driver
from runtime_ext.cuda.nvidia.resources import DriverHandle, event
from runtime_ext.execution.executor import Span


class TimedLaunches:
    """Events before and after every launch of a run, which may be captured into a graph."""

    def __init__(self, device: OpenDevice, count: int, *, in_graph: bool) -> None:
        self._in_graph = in_graph
        self.origin = event(device, timing=True)
        self.before = [event(device, timing=True) for _ in range(count)]
        self.after = [event(device, timing=True) for _ in range(count)]

    def record(self, moment: DriverHandle, queue: Any) -> None:
        """Record one of the events on a stream."""
        if self._in_graph:
            flag = driver().CUevent_record_flags.CU_EVENT_RECORD_EXTERNAL
            call("cuEventRecordWithFlags", moment.handle, queue, flag)
        else:
            call("cuEventRecord", moment.handle, queue)

    def spans(self, graph: EventGraph) -> tuple[Span, ...]:
        """Return the begin and end times of the launches, lane by lane."""
        spans = [
            Span(node.lane, node.number, self._seconds(begin), self._seconds(end))
            for node, begin, end in zip(graph.nodes, self.before, self.after, strict=True)
        ]
        return tuple(sorted(spans, key=lambda span: (span.lane, span.launch)))

    def _seconds(self, moment: DriverHandle) -> float:
        return call("cuEventElapsedTime", self.origin.handle, moment.handle) * 1e-3
