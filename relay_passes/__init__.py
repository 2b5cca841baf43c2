"""TVM passes that schedule operators: modules in, modules out."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from relay_passes.ios_schedule import IOSSchedule
from relay_passes.measuring_options import MeasuringOptions
from relay_passes.memory_schedule import MemorySchedule
from relay_passes.prepare import apply_schedule, prepare, schedule_of

if TYPE_CHECKING:
    from relay_passes.graphturbo_partition import GraphTurboPartition

__all__ = [
    "GraphTurboPartition",
    "IOSSchedule",
    "MeasuringOptions",
    "MemorySchedule",
    "apply_schedule",
    "prepare",
    "schedule_of",
]


def __getattr__(name: str) -> Any:
    # A pass for Relax alone: a TVM that has Relay cannot import it.
    if name == "GraphTurboPartition":
        return importlib.import_module("relay_passes.graphturbo_partition").GraphTurboPartition
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
