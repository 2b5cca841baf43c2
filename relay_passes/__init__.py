"""TVM passes that schedule operators: modules in, modules out."""

from relay_passes.ios_schedule import IOSSchedule
from relay_passes.measuring_options import MeasuringOptions
from relay_passes.prepare import apply_schedule, prepare, schedule_of

__all__ = ["IOSSchedule", "MeasuringOptions", "apply_schedule", "prepare", "schedule_of"]
