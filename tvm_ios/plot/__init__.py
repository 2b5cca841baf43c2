"""Pictures of schedules, runs and memory (needs matplotlib, the ``notebook`` extra)."""

from tvm_ios.plot.footprints import plot_footprints
from tvm_ios.plot.instances import plot_instances
from tvm_ios.plot.pictures import require_picture, save_picture
from tvm_ios.plot.runs import plot_profile, plot_run
from tvm_ios.plot.schedules import plot_placement, plot_schedule

__all__ = [
    "plot_footprints",
    "plot_instances",
    "plot_placement",
    "plot_profile",
    "plot_run",
    "plot_schedule",
    "require_picture",
    "save_picture",
]
