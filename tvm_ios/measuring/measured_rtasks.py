"""The times of rTasks, profiled on a device: on CPU lanes, or as parts of one GPU kernel."""

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
    """Implements :class:`tvm_ios.costs.costs.RTaskCosts` with profiled rKernels.

    ``timer`` profiles rKernels, or reads profiles from a log. ``measuring`` is None where rPrograms
    are only simulated: a log rarely holds the ones that are compared.
    """

    timer: StageTimer
    measuring: MeasuredRPrograms | None = None

    @property
    def lanes(self) -> int:
        """Lanes of the CPU, or the number of vEUs of the GPU that any of the kernels allows."""
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
        """Return a stage's measured seconds on a GPU; None unless rPrograms are measured."""
        if self.timer.kernels.fuser is None or self.measuring is None:
            return None
        if not self.timer.unit_latencies:
            # Lanes are divided among groups by the latencies of units.
            self.timer.measure_units()
        return self.timer.stage_latency(graph, stage)

    def prepare(self, progress: Progress) -> None:
        """Compile and profile the rKernels of every unit."""
        self.timer.compile_units(progress)
        self.timer.rkernels.measure(progress)

    def kernels(self, graph: OpGraph, unit: int) -> tuple[RKernel, ...]:
        """Return the rKernels of a unit; on a GPU, with rTask times as if all vEUs were busy."""
        timer, fuser = self.timer, self.timer.kernels.fuser
        if fuser is None:
            return timer.rkernels(unit)
        return tuple(
            fuser.contended(kernel, timer.rkernels.code(unit, kernel.name), self.lanes)
            for kernel in timer.rkernels(unit)
        )

    def program(self, graph: OpGraph, stage: Stage) -> RProgram:
        """Return the rProgram that a co-scheduled stage runs."""
        return self.timer.rprogram(stage)

    def seconds(self, graph: OpGraph, programs: Sequence[RProgram]) -> Sequence[float]:
        """Return the seconds of rPrograms, simulated from the times of their rTasks."""
        return simulate(programs)


@dataclass(frozen=True)
class MeasuredRPrograms:
    """Implements :class:`tvm_ios.costs.costs.RProgramMeasuring` with a timer."""

    timer: StageTimer

    def require_any(self) -> None:
        """Raise UnfusedError if no co-scheduled stage can be built here."""
        require_fusing(self.timer)

    def can_run(self, program: RProgram) -> bool:
        """Return whether an rProgram can be built here with the rKernels that it names."""
        fuser, chosen = self.timer.kernels.fuser, program.kernels
        return fuser is None or fuser.can_fuse(
            {unit: self.timer.rkernels.code(unit, kernel.name) for unit, kernel in chosen.items()}
        )

    def seconds(self, programs: Iterable[RProgram]) -> Iterator[float]:
        """Return the seconds of rPrograms, from the log or measured now."""
        return self.timer.rprogram_latencies(programs)


def require_fusing(timer: StageTimer) -> None:
    """Raise UnfusedError if no co-scheduled stage can become one kernel here."""
    fuser = timer.kernels.fuser
    if fuser is not None and fuser.refusal:
        raise UnfusedError(f"the policy rammer compiles kernels as it goes and {fuser.refusal}")


def can_co_schedule(timer: StageTimer, units: Sequence[int]) -> bool:
    """Return whether a co-scheduled stage of units, in their usual form, can be built here."""
    fuser = timer.kernels.fuser
    return fuser is None or fuser.can_fuse({u: timer.forms.generated((u,)).code for u in units})


def placed_unit(timer: StageTimer, unit: int) -> tuple[float, float]:
    """Return lower bounds, in seconds, of a unit's time in a co-scheduled stage on a GPU.

    The first is if its rTasks fill the device, the second is of its fastest rKernel: the values
    that ``placed`` of :class:`tvm_ios.costs.composed.ComposedCost` gives.
    """
    fuser, kernels = timer.kernels.fuser, timer.rkernels(unit)
    assert fuser is not None
    return (
        min(fuser.share(kernel, timer.rkernels.code(unit, kernel.name)) for kernel in kernels),
        min(kernel.seconds for kernel in kernels),
    )
