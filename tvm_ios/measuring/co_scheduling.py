"""What of co-scheduled stages depends on where they run: on lanes, or as one kernel of a GPU."""

from __future__ import annotations

from collections.abc import Sequence

from tvm_ios.measuring.stage_timer import StageTimer
from tvm_ios.rammer.rprogram import RProgram


def can_co_schedule(timer: StageTimer, units: Sequence[int]) -> bool:
    """Whether a co-scheduled stage of some units, in their usual form, can be built here."""
    fuser = timer.kernels.fuser
    return fuser is None or fuser.can_fuse({u: timer.forms.generated((u,)).code for u in units})


def can_run(timer: StageTimer, program: RProgram) -> bool:
    """The same of an rProgram, in the form that it has."""
    fuser, chosen = timer.kernels.fuser, program.kernels
    return fuser is None or fuser.can_fuse(
        {unit: timer.rkernels.code(unit, kernel.name) for unit, kernel in chosen.items()}
    )


def execution_units(timer: StageTimer) -> int:
    """What Rammer's policy places rTasks on: lanes, or vEUs that any kernels leave."""
    fuser = timer.kernels.fuser
    if fuser is None:
        return timer.lanes
    units = range(len(timer.graph))
    return fuser.execution_units(
        timer.rkernels.code(unit, kernel.name) for unit in units for kernel in timer.rkernels(unit)
    )


def placed_unit(timer: StageTimer, unit: int) -> tuple[float, float]:
    """Seconds that a unit takes of a co-scheduled stage on a GPU at least: see ``placed`` of
    :class:`tvm_ios.costs.composed.ComposedCost`."""
    fuser, kernels = timer.kernels.fuser, timer.rkernels(unit)
    assert fuser is not None
    return (
        min(fuser.share(kernel, timer.rkernels.code(unit, kernel.name)) for kernel in kernels),
        min(kernel.seconds for kernel in kernels),
    )
