"""TVM passes that schedule operators: modules in, modules out."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from relay_passes.ios_schedule import IOSSchedule
from relay_passes.measuring_options import MeasuringOptions
from relay_passes.prepare import apply_schedule, prepare, schedule_of

if TYPE_CHECKING:
    from relay_passes.graphturbo_partition import GraphTurboPartition
    from relay_passes.memory_schedule import MemorySchedule

__all__ = [
    "GraphTurboPartition",
    "IOSSchedule",
    "MeasuringOptions",
    "MemorySchedule",
    "apply_schedule",
    "prepare",
    "schedule_of",
]

#: Passes for Relax alone: a TVM that has Relay cannot import them.
_RELAX = {"GraphTurboPartition": "graphturbo_partition", "MemorySchedule": "memory_schedule"}


def __getattr__(name: str) -> Any:
    if name in _RELAX:
        return getattr(importlib.import_module(f"relay_passes.{_RELAX[name]}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
