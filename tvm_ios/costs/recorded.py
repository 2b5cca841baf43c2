"""Stage latencies that were measured before and are read from a log."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence

from tvm_ios.costs.log import quietest
from tvm_ios.graph.op_graph import OpGraph
from tvm_ios.schedule.stage import Stage


class RecordedCost:
    """A cost model that returns the quietest of the recorded measurements of a stage.

    A stage without a measurement has infinite latency, so a search finds the best schedule of
    recorded stages. ``measurements`` map stage keys to the samples, in seconds, of each
    measurement, e.g. :attr:`tvm_ios.costs.log.MeasurementLog.measurements`; they are read anew at
    every call and may grow.
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
        """Return the seconds, barrier included; ``inf`` if the stage was never measured."""
        measurements = self._measurements.get(self._stage_key(graph, stage))
        return quietest(measurements) if measurements else math.inf
