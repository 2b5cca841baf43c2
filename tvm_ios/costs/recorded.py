"""Stage latencies that were measured before, read from a log."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence

from tvm_ios.costs.log import quietest
from tvm_ios.graph.op_graph import OpGraph
from tvm_ios.schedule.stage import Stage


class RecordedCost:
    """The latency of a stage by the quietest of its measurements.

    A stage that the log does not hold cannot be used: its latency is infinite, so a search
    finds the best schedule of recorded stages.

    Parameters
    ----------
    measurements
        For each stage key the samples of each measurement in seconds, e.g.
        :attr:`tvm_ios.costs.log.MeasurementLog.measurements`; read anew at every call, so that it
        may grow.
    stage_key
        Gives a stage's key.
    """

    name = "recorded"

    def __init__(
        self,
        measurements: Mapping[str, Sequence[Sequence[float]]],
        stage_key: Callable[[OpGraph, Stage], str],
    ) -> None:
        self._measurements = measurements
        self._stage_key = stage_key

    def stage_latency(self, graph: OpGraph, stage: Stage) -> float:
        """Seconds, barrier included; ``inf`` if the stage was never measured."""
        measurements = self._measurements.get(self._stage_key(graph, stage))
        return quietest(measurements) if measurements else math.inf
