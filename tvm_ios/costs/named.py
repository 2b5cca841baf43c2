"""Costs by name: those of a device, or of a cost model that another package adds."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

from tvm_ios.costs.analytic import AnalyticCost
from tvm_ios.costs.costs import Costs, costs_of_model
from tvm_ios.costs.model import CostModel
from tvm_ios.devices.device import DeviceDescription, DeviceError, device_names, load_device
from tvm_ios.devices.engine import EngineDescription, load_engine
from tvm_ios.devices.memory_hierarchy import hierarchy_names
from tvm_ios.extensions import extensions, load_extension
from tvm_ios.graph.op_graph import OpGraph
from tvm_ios.progress import Progress
from tvm_ios.rammer.rprogram import RProgram
from tvm_ios.rammer.wavefront import co_schedule
from tvm_ios.schedule.rkernel import RKernel
from tvm_ios.schedule.stage import Stage, Strategy

#: The entry points of other packages' cost models.
GROUP = "tvm_ios.costs"

#: The name of costs measured on this machine. Measuring needs a module, so :func:`costs_named`
#: does not accept it.
MEASURED = "measured"


def cost_names() -> tuple[str, ...]:
    """Return the names of all costs."""
    return tuple(dict.fromkeys((MEASURED, *device_names(), *extensions(GROUP))))


def costs_named(name: str, engine: str | None = None) -> Costs:
    """Return the costs of a device, or of a cost model that another package adds.

    ``name`` is one of :func:`cost_names` but ``measured``, or the path of a device's ``.json``
    file; ``engine`` that of an engine, by default the one of this project's programs. Raise
    DeviceError if there is no such device or engine, or the cost model has none, and
    ExtensionError if the package is broken.
    """
    if name in extensions(GROUP) and name not in device_names():
        if engine is not None:
            raise DeviceError(f"{name} is a cost model of its own, without engines")
        return costs_of_model(load_extension(GROUP, name, CostModel))
    if name in hierarchy_names() and name not in device_names():
        raise DeviceError(f"{name} is an accelerator: only --policy graphturbo plans for it")
    return described_costs(load_device(name), None if engine is None else load_engine(engine))


def described_costs(device: DeviceDescription, engine: EngineDescription | None = None) -> Costs:
    """Return the costs of stages and rTasks that follow from a device's and an engine's figures."""
    cost = AnalyticCost(device, engine)
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
