"""From a scheduled module to something that runs: kernels, program, packed weights."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import tvm

from runtime_ext.execution.built_model import BuiltModel
from runtime_ext.execution.model_program import ModelUnits, lower_units
from runtime_ext.execution.ports import ports
from runtime_ext.machine.this_machine import available_lanes, cache_folder
from runtime_ext.targets import target_backend
from tvm_ios.files.array_files import Array
from tvm_ios.program.arena.planner import plan_lane_memory, plan_memory
from tvm_ios.program.lower import recorded_latency
from tvm_ios.progress import Steps
from tvm_ios.schedule.schedule import UNROLLED_FROM, Schedule, ScheduleError

if TYPE_CHECKING:
    from runtime_ext.units.unit import UnitSource
    from runtime_ext.units.unit_compiler import UnitCompiler


def build(
    module: tvm.IRModule,
    *,
    target: Any = None,
    lanes: int | None = None,
    name: str = "model",
    compiler: UnitCompiler | None = None,
    progress: Steps | None = None,
) -> BuiltModel:
    """Compile what ``IOSSchedule`` made.

    Parameters
    ----------
    module
        A module that carries a schedule. For one of Relay :func:`runtime_ext.relay.build.build`
        takes a tuning log, too.
    target
        A TVM target; this machine by default.
    lanes
        Threads; all that the process may use by default.
    name
        Of the model.
    compiler
        One that may hold the kernels already.
    progress
        Called with kernels compiled and all of them.

    Raises
    ------
    ModuleError
        If the module is not in the scheduled form.
    UserError
        If it names an rKernel that a unit has not.
    """
    if any(type(f).__module__.startswith("tvm.relay") for f in module.functions.values()):
        from runtime_ext.relay.build import build as build_relay

        return build_relay(module, target=target, lanes=lanes, name=name)
    # The TVM that has Relay lacks what these import.
    from runtime_ext.scheduled_module import read_scheduled_module
    from runtime_ext.units.in_place import arrange

    lanes = lanes or available_lanes()
    compiler = compiler or target_backend(target, lanes, cache_folder() / "kernels").compiler
    read = read_scheduled_module(module, name)
    require_lanes(read.schedule, lanes)
    graph = read.graph
    memory = arrange(graph, read.functions)

    def source(units: tuple[int, ...]) -> UnitSource:
        op = graph.operators[units[0]]
        return memory.source(read.functions[units[0]], op.inputs, op.outputs)

    def weights(units: tuple[int, ...]) -> list[Array]:
        return [constant.value.numpy() for constant in read.constants[units[0]]]

    program, constants = lower_units(
        ModelUnits(graph, memory.parts, source, weights),
        read,
        compiler,
        lanes=lanes,
        unit_latency=recorded_latency(read.stages, read.unit_latencies, lanes),
        progress=progress,
    )
    # Lanes that run whole instances have a region of the arena each, which stays in their caches.
    plan = plan_lane_memory if UNROLLED_FROM in read.schedule else plan_memory
    return BuiltModel(
        program=program,
        memory=plan(program),
        kernels=compiler,
        constants=constants,
        inputs=ports(program, graph, graph.inputs, (graph.tensors[t].name for t in graph.inputs)),
        outputs=ports(program, graph, graph.outputs, read.output_names),
        schedule=read.schedule,
    )


def require_lanes(schedule: Mapping[str, Any], lanes: int) -> None:
    """Refuse to build for fewer lanes than a schedule has placed instances on.

    Raises
    ------
    ScheduleError
        If it has.
    """
    plan = Schedule.from_json(schedule.get(UNROLLED_FROM, schedule)).instances
    if plan is not None and plan.lanes > lanes:
        raise ScheduleError(f"the schedule is for more lanes than {lanes}: search again")
