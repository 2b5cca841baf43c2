"""rTasks of compiled kernels whose times are estimates: for devices that time programs slowly."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass

from runtime_ext.cuda.persistent.rtask_times import estimated_rkernel
from tvm_ios.costs.analytic import AnalyticCost
from tvm_ios.graph.op_graph import OpGraph
from tvm_ios.measuring.measured_rtasks import MeasuredRPrograms
from tvm_ios.measuring.stage_fuser import StageFuser
from tvm_ios.measuring.stage_timer import StageTimer
from tvm_ios.progress import Progress
from tvm_ios.rammer.rprogram import RProgram
from tvm_ios.schedule.rkernel import RKernel
from tvm_ios.schedule.stage import Stage, Strategy


@dataclass(frozen=True)
class EstimatedRTasks:
    """See :class:`tvm_ios.costs.costs.RTaskCosts`; unlike a device's alone, programs can be built.

    Attributes
    ----------
    timer
        Has the kernels; nothing is timed.
    blocks
        Gives the blocks of a kernel by its symbol.
    cost
        Estimates stages, co-scheduled ones too, by a device's figures.
    """

    timer: StageTimer
    blocks: Callable[[str], int]
    cost: AnalyticCost

    @property
    def measuring(self) -> EstimatedRPrograms:
        """Estimates rPrograms, and knows which can be built."""
        return EstimatedRPrograms(self.timer, self.cost)

    @property
    def lanes(self) -> int:
        """The vEUs that the GPU is for any of the kernels."""
        forms = self.timer.rkernels.forms
        units = range(len(self.timer.graph))
        return self._fuser.lanes(form.code for u in units for form in forms(u).values())

    def on_streams(self, graph: OpGraph, stage: Stage) -> float:
        """Estimated seconds of a stage."""
        return self.cost.stage_latency(graph, stage)

    def prepare(self, progress: Progress) -> None:
        """Compile the rKernels of every unit."""
        self.timer.compile_units(progress)
        self.timer.rkernels.compile(progress)

    def kernels(self, graph: OpGraph, unit: int) -> tuple[RKernel, ...]:
        """The ways to compute a unit; the first is the usual one."""
        forms, flops = self.timer.rkernels.forms(unit), graph.operators[unit].flops
        veus = self._fuser.lanes(form.code for form in forms.values())
        return tuple(
            estimated_rkernel(name, form.code, self.blocks, flops, self.cost.device, veus)
            for name, form in forms.items()
        )

    def program(self, graph: OpGraph, stage: Stage) -> RProgram:
        """What a co-scheduled stage runs."""
        return self._fuser.rprogram(
            graph,
            stage.units,
            lambda unit: self.kernels(graph, unit),
            self.timer.rkernels.code,
            profiled=False,
        )

    def seconds(self, graph: OpGraph, programs: Sequence[RProgram]) -> list[float]:
        """Estimated seconds of programs as stages, like all others."""
        return [*self.measuring.seconds(programs)]

    @property
    def _fuser(self) -> StageFuser:
        fuser = self.timer.kernels.fuser
        assert fuser is not None, "kernels are for a GPU"
        return fuser


@dataclass(frozen=True)
class EstimatedRPrograms(MeasuredRPrograms):
    """rPrograms whose times are estimates; see :class:`tvm_ios.costs.costs.RProgramMeasuring`.

    Attributes
    ----------
    cost
        As of :class:`EstimatedRTasks`.
    """

    cost: AnalyticCost

    def seconds(self, programs: Iterable[RProgram]) -> Iterator[float]:
        """Seconds of the stages that rPrograms are."""
        for program in programs:
            stage = Stage(Strategy.CO_SCHEDULE, (program.units,))
            yield self.cost.stage_latency(self.timer.graph, stage)
