"""TVM passes that schedule operators: modules in, modules out."""

from __future__ import annotations

from relay_passes.graphturbo_partition import GraphTurboPartition
from relay_passes.ios_schedule import IOSSchedule
from relay_passes.memory_schedule import MemorySchedule
from relay_passes.prepare import apply_schedule, prepare, schedule_of
from relay_passes.search_options import SearchOptions

__all__ = [
    "GraphTurboPartition",
    "IOSSchedule",
    "MemorySchedule",
    "SearchOptions",
    "apply_schedule",
    "prepare",
    "schedule_of",
]
