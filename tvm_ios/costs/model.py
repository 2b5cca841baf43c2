"""What a cost model is."""

from __future__ import annotations

from typing import Protocol

from tvm_ios.graph.op_graph import OpGraph
from tvm_ios.schedule.schedule import Stage


class CostModel(Protocol):
    """Tells how long a stage takes on a device.

    Attributes
    ----------
    name
        How people ask for it, e.g. ``"measured"`` or ``"v100"``.
    """

    name: str

    def stage_latency(self, graph: OpGraph, stage: Stage) -> float:
        """Seconds that a stage takes, barrier included; ``inf`` if it cannot run."""
        ...
