"""What a cost model is."""

from __future__ import annotations

from typing import Protocol, runtime_checkable

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
