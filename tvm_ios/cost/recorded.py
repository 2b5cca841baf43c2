"""Stage latencies that were measured before, read from a log."""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Mapping, Sequence

from tvm_ios.graph import OpGraph
from tvm_ios.schedule import Stage


class RecordedCost:
    """The median of a stage's samples.

    A stage that the log does not hold cannot be used: its latency is infinite, so a search
    finds the best schedule of recorded stages.

    Parameters
    ----------
    samples
        For each stage key its samples in seconds, e.g.
        :attr:`tvm_ios.cost.log.MeasurementLog.samples`; read anew at every call, so that it
        may grow.
    stage_key
        Gives a stage's key.
    """

    name = "recorded"
    is_lower_bound = False

    def __init__(
        self,
        samples: Mapping[str, Sequence[float]],
        stage_key: Callable[[OpGraph, Stage], str],
    ) -> None:
        self._samples = samples
        self._stage_key = stage_key

    def stage_latency(self, graph: OpGraph, stage: Stage) -> float:
        """Seconds, barrier included; ``inf`` if the stage was never measured."""
        samples = self._samples.get(self._stage_key(graph, stage))
        return statistics.median(samples) if samples else math.inf

    def spread(self, graph: OpGraph, stage: Stage) -> float:
        """The distance of the quartiles over the median; nan with fewer than two samples."""
        samples = self._samples.get(self._stage_key(graph, stage), ())
        if len(samples) < 2:
            return math.nan
        low, median, high = statistics.quantiles(samples, n=4, method="inclusive")
        return (high - low) / median
