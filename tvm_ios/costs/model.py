"""What a cost model is."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol, runtime_checkable

import numpy as np
import numpy.typing as npt

from tvm_ios.graph.op_graph import OpGraph
from tvm_ios.schedule.stage import Stage


@runtime_checkable
class CostModel(Protocol):
    """Tells how long a stage takes on a device."""

    @property
    def name(self) -> str:
        """How people ask for it, e.g. ``"measured"`` or ``"v100"``."""
        ...

    def stage_latency(self, graph: OpGraph, stage: Stage) -> float:
        """Seconds that a stage takes, barrier included; ``inf`` if it cannot run."""
        ...


@runtime_checkable
class BatchCostModel(CostModel, Protocol):
    """A cost model that tells many stages' latencies faster than one by one."""

    def stage_latencies(self, graph: OpGraph, stages: Sequence[Stage]) -> npt.NDArray[np.float64]:
        """What :meth:`CostModel.stage_latency` says of each stage."""
        ...


def stage_latencies(
    cost: CostModel, graph: OpGraph, stages: Sequence[Stage]
) -> npt.NDArray[np.float64]:
    """Seconds of some stages, at once if the model can."""
    if isinstance(cost, BatchCostModel):
        return cost.stage_latencies(graph, stages)
    return np.array([cost.stage_latency(graph, stage) for stage in stages], np.float64)
