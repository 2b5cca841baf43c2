"""TVM passes that schedule operators: modules in, modules out."""

from __future__ import annotations

from relay_passes.graphturbo_partition import GraphTurboPartition
from relay_passes.ios_schedule import IOSSchedule
from relay_passes.measuring_options import MeasuringOptions
from relay_passes.memory_schedule import MemorySchedule
from relay_passes.prepare import apply_schedule, prepare, schedule_of

__all__ = [
    "GraphTurboPartition",
    "IOSSchedule",
    "MeasuringOptions",
    "MemorySchedule",
    "apply_schedule",
    "prepare",
    "schedule_of",
]
