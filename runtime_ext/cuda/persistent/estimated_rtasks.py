"""rTasks of compiled kernels with estimated times, for devices that time programs slowly."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass

from tvm_ios.costs.analytic import AnalyticCost
from tvm_ios.costs.kernel_estimate import KernelEstimate
from tvm_ios.costs.persistent import rkernel
from tvm_ios.graph.op_graph import OpGraph
from tvm_ios.measuring.measured_rtasks import MeasuredRPrograms
from tvm_ios.measuring.stage_fuser import StageFuser
from tvm_ios.measuring.stage_timer import StageTimer
from tvm_ios.program.program import UnitCode
from tvm_ios.progress import Progress
from tvm_ios.rammer.rprogram import RProgram
from tvm_ios.schedule.rkernel import RKernel
from tvm_ios.schedule.stage import Stage, Strategy


@dataclass(frozen=True)
class EstimatedRTasks:
    """Estimated costs of the rTasks of compiled kernels; programs can be built of them.

    See :class:`tvm_ios.costs.costs.RTaskCosts`. ``timer`` has the kernels, but times nothing;
    ``estimates`` returns those of a unit's kernels by their symbols and its FLOPs; ``cost``
    estimates stages by the figures of a device.
    """

    timer: StageTimer
    estimates: Callable[[Sequence[str], int], Sequence[KernelEstimate]]
    cost: AnalyticCost

    @property
    def measuring(self) -> EstimatedRPrograms:
        """The estimator of rPrograms, which knows the ones that can be built."""
        return EstimatedRPrograms(self.timer, self.cost)

    @property
    def lanes(self) -> int:
        """The number of vEUs of the GPU that holds for any of the kernels."""
        forms = self.timer.rkernels.forms
        units = range(len(self.timer.graph))
        return self._fuser.lanes(form.code for u in units for form in forms(u).values())

    def on_streams(self, graph: OpGraph, stage: Stage) -> float:
        """Return the estimated seconds of a stage with its groups on streams."""
        return self.cost.stage_latency(graph, stage)

    def prepare(self, progress: Progress) -> None:
        """Compile the rKernels of every unit."""
        self.timer.compile_units(progress)
        self.timer.rkernels.compile(progress)

    def kernels(self, graph: OpGraph, unit: int) -> tuple[RKernel, ...]:
        """Return the rKernels of a unit, the default first."""
        forms, flops = self.timer.rkernels.forms(unit), graph.operators[unit].flops
        veus = self._fuser.lanes(form.code for form in forms.values())

        def kernels(code: UnitCode) -> Sequence[KernelEstimate]:
            return self.estimates([call.symbol for call in code.calls], flops)

        return tuple(
            rkernel(name, kernels(form.code), self.cost.device, veus)
            for name, form in forms.items()
        )

    def program(self, graph: OpGraph, stage: Stage) -> RProgram:
        """Return the rProgram of a co-scheduled stage."""
        return self._fuser.rprogram(
            graph,
            stage.units,
            lambda unit: self.kernels(graph, unit),
            self.timer.rkernels.code,
            profiled=False,
        )

    def seconds(self, graph: OpGraph, programs: Sequence[RProgram]) -> list[float]:
        """Return the estimated seconds of rPrograms, as of any other stages."""
        return [*self.measuring.seconds(programs)]

    @property
    def _fuser(self) -> StageFuser:
        fuser = self.timer.kernels.fuser
        assert fuser is not None, "kernels are for a GPU"
        return fuser


@dataclass(frozen=True)
class EstimatedRPrograms(MeasuredRPrograms):
    """An estimator of rPrograms' times, by a cost model.

    See :class:`tvm_ios.costs.costs.RProgramMeasuring`.
    """

    cost: AnalyticCost

    def seconds(self, programs: Iterable[RProgram]) -> Iterator[float]:
        """Yield the estimated seconds of rPrograms as co-scheduled stages."""
        for program in programs:
            stage = Stage(Strategy.CO_SCHEDULE, (program.units,))
            yield self.cost.stage_latency(self.timer.graph, stage)
