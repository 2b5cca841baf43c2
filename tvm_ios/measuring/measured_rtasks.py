"""The times of rTasks, profiled on a device: on lanes, or as parts of one kernel of a GPU."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

from tvm_ios.errors import UnfusedError
from tvm_ios.graph.op_graph import OpGraph
from tvm_ios.measuring.stage_timer import StageTimer
from tvm_ios.progress import Progress
from tvm_ios.rammer.rprogram import RProgram, simulate
from tvm_ios.schedule.rkernel import RKernel
from tvm_ios.schedule.stage import Stage


@dataclass(frozen=True)
class MeasuredRTasks:
    """See :class:`tvm_ios.costs.costs.RTaskCosts`.

    Attributes
    ----------
    timer
        Profiles rKernels, or has them from a log.
    measuring
        None where rPrograms are simulated: a log has hardly ever those that are compared.
    """

    timer: StageTimer
    measuring: MeasuredRPrograms | None = None

    @property
    def lanes(self) -> int:
        """The lanes of a CPU, or the vEUs that a GPU is for any of the kernels."""
        return self._lanes

    @cached_property
    def _lanes(self) -> int:
        timer, fuser = self.timer, self.timer.kernels.fuser
        if fuser is None:
            return timer.lanes
        units = range(len(timer.graph))
        return fuser.lanes(
            timer.rkernels.code(u, kernel.name) for u in units for kernel in timer.rkernels(u)
        )

    def on_streams(self, graph: OpGraph, stage: Stage) -> float | None:
        """Measured seconds of a stage on a GPU, if rPrograms are measured too."""
        if self.timer.kernels.fuser is None or self.measuring is None:
            return None
        if not self.timer.unit_latencies:
            # Groups share the lanes by them.
            self.timer.measure_units()
        return self.timer.stage_latency(graph, stage)

    def prepare(self, progress: Progress) -> None:
        """Compile and profile the rKernels of every unit."""
        self.timer.compile_units(progress)
        self.timer.rkernels.measure(progress)

    def kernels(self, graph: OpGraph, unit: int) -> tuple[RKernel, ...]:
        """The ways to compute a unit; on a GPU its rTasks share multiprocessors with others."""
        timer, fuser = self.timer, self.timer.kernels.fuser
        if fuser is None:
            return timer.rkernels(unit)
        return tuple(
            fuser.contended(kernel, timer.rkernels.code(unit, kernel.name), self.lanes)
            for kernel in timer.rkernels(unit)
        )

    def program(self, graph: OpGraph, stage: Stage) -> RProgram:
        """What a co-scheduled stage runs."""
        return self.timer.rprogram(stage)

    def seconds(self, graph: OpGraph, programs: Sequence[RProgram]) -> Sequence[float]:
        """Seconds that follow from those of rTasks."""
        return simulate(programs)


@dataclass(frozen=True)
class MeasuredRPrograms:
    """See :class:`tvm_ios.costs.costs.RProgramMeasuring`."""

    timer: StageTimer

    def require_any(self) -> None:
        """Refuse where there is no compiler."""
        require_fusing(self.timer)

    def can_run(self, program: RProgram) -> bool:
        """Whether an rProgram can be built here, in the form that it has."""
        fuser, chosen = self.timer.kernels.fuser, program.kernels
        return fuser is None or fuser.can_fuse(
            {unit: self.timer.rkernels.code(unit, kernel.name) for unit, kernel in chosen.items()}
        )

    def seconds(self, programs: Iterable[RProgram]) -> Iterator[float]:
        """Seconds of rPrograms, from the log or measured now."""
        return self.timer.rprogram_latencies(programs)


def require_fusing(timer: StageTimer) -> None:
    """Refuse where a kernel cannot be made of any co-scheduled stage, as UnfusedError."""
    fuser = timer.kernels.fuser
    if fuser is not None and fuser.refusal:
        raise UnfusedError(f"the policy rammer compiles kernels as it goes and {fuser.refusal}")


def can_co_schedule(timer: StageTimer, units: Sequence[int]) -> bool:
    """Whether a co-scheduled stage of some units, in their usual form, can be built here."""
    fuser = timer.kernels.fuser
    return fuser is None or fuser.can_fuse({u: timer.forms.generated((u,)).code for u in units})


def placed_unit(timer: StageTimer, unit: int) -> tuple[float, float]:
    """Seconds that a unit takes of a co-scheduled stage on a GPU at least.

    They are what ``placed`` of :class:`tvm_ios.costs.composed.ComposedCost` gives.
    """
    fuser, kernels = timer.kernels.fuser, timer.rkernels(unit)
    assert fuser is not None
    return (
        min(fuser.share(kernel, timer.rkernels.code(unit, kernel.name)) for kernel in kernels),
        min(kernel.seconds for kernel in kernels),
    )
