"""The interface of cost models."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol, runtime_checkable

import numpy as np
import numpy.typing as npt

from tvm_ios.graph.op_graph import OpGraph
from tvm_ios.schedule.stage import Stage


@runtime_checkable
class CostModel(Protocol):
    """A model that predicts how long a stage takes on a device."""

    @property
    def name(self) -> str:
        """The name by which users choose it, e.g. ``"measured"`` or ``"v100"``."""
        ...

    def stage_latency(self, graph: OpGraph, stage: Stage) -> float:
        """Return the seconds that a stage takes, barrier included; ``inf`` if it cannot run."""
        ...


@runtime_checkable
class BatchCostModel(CostModel, Protocol):
    """A cost model that computes many stages' latencies at once, faster than one by one."""

    def stage_latencies(self, graph: OpGraph, stages: Sequence[Stage]) -> npt.NDArray[np.float64]:
        """Return the seconds of each stage, as :meth:`CostModel.stage_latency` does for one."""
        ...


def stage_latencies(
    cost: CostModel, graph: OpGraph, stages: Sequence[Stage]
) -> npt.NDArray[np.float64]:
    """Return the seconds of several stages, computed at once if the model can."""
    if isinstance(cost, BatchCostModel):
        return cost.stage_latencies(graph, stages)
    return np.array([cost.stage_latency(graph, stage) for stage in stages], np.float64)
