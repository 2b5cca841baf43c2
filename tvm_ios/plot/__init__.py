"""Pictures of schedules, runs and memory (needs matplotlib, the ``notebook`` extra).

- pictures: axes to draw into, and files
- colours: of families of operators, with their legend; boxes: units with their names
- schedules: stages in time, rPrograms on lanes; runs: launches on lanes; footprints: memory
- instances: instances of sub-graphs on lanes
"""

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
