"""The costs of a device that is described by its figures, not measured."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

from tvm_ios.costs.analytic import AnalyticCost
from tvm_ios.costs.costs import Costs
from tvm_ios.devices.device import DeviceDescription
from tvm_ios.graph.op_graph import OpGraph
from tvm_ios.progress import Progress
from tvm_ios.rammer.rprogram import RProgram
from tvm_ios.rammer.wavefront import co_schedule
from tvm_ios.schedule.rkernel import RKernel
from tvm_ios.schedule.stage import Stage, Strategy


def described_costs(device: DeviceDescription) -> Costs:
    """Return the costs of stages and rTasks that follow from a device's figures."""
    cost = AnalyticCost(device)
    return Costs(device.name, device.name, cost, rtasks=_DescribedRTasks(cost), branches_alike=True)


@dataclass(frozen=True)
class _DescribedRTasks:
    """Estimated times of rTasks; implements :class:`tvm_ios.costs.costs.RTaskCosts`."""

    cost: AnalyticCost
    measuring: None = None

    @property
    def lanes(self) -> int:
        return self.cost.veus

    def on_streams(self, graph: OpGraph, stage: Stage) -> float | None:
        is_gpu = self.cost.device.multiprocessor is not None
        return self.cost.stage_latency(graph, stage) if is_gpu else None

    def prepare(self, progress: Progress) -> None:
        """Do nothing: all times follow from the device's figures."""

    def kernels(self, graph: OpGraph, unit: int) -> tuple[RKernel, ...]:
        return self.cost.rkernels(graph, unit)

    def program(self, graph: OpGraph, stage: Stage) -> RProgram:
        kernels = partial(self.cost.rkernels, graph)
        return co_schedule(graph, stage.units, kernels, self.lanes)

    def seconds(self, graph: OpGraph, programs: Sequence[RProgram]) -> Sequence[float]:
        """Return the seconds of the programs' units as co-scheduled stages."""
        stages = [Stage(Strategy.CO_SCHEDULE, (program.units,)) for program in programs]
        return self.cost.stage_latencies(graph, stages).tolist()
