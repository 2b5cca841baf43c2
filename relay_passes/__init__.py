"""TVM passes that schedule operators: modules in, modules out.

Begin with :attr:`relay_passes.pipeline.Pipeline.phases`, the list of the phases in order.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from relay_passes.graphturbo_partition import GraphTurboPartition
    from relay_passes.ios_schedule import IOSSchedule
    from relay_passes.legalize_units import LegalizeUnits
    from relay_passes.memory_schedule import MemorySchedule
    from relay_passes.pipeline import apply_schedule, prepare, schedule_of
    from relay_passes.search_options import SearchOptions

__all__ = [
    "GraphTurboPartition",
    "IOSSchedule",
    "LegalizeUnits",
    "MemorySchedule",
    "SearchOptions",
    "apply_schedule",
    "prepare",
    "schedule_of",
]

_MODULES = {
    "GraphTurboPartition": "graphturbo_partition",
    "IOSSchedule": "ios_schedule",
    "LegalizeUnits": "legalize_units",
    "MemorySchedule": "memory_schedule",
    "SearchOptions": "search_options",
    "apply_schedule": "pipeline",
    "prepare": "pipeline",
    "schedule_of": "pipeline",
}


def __getattr__(name: str) -> Any:
    # Unknown names are refused before TVM is imported, which takes seconds.
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_MODULES[name]}"), name)
