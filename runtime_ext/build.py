"""From a scheduled module to something that runs: kernels, program, packed weights."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
import tvm

from runtime_ext.backend import backend
from runtime_ext.execution.buffers import content_key
from runtime_ext.execution.built_model import BuiltModel
from runtime_ext.execution.ports import ports
from runtime_ext.machine.this_machine import available_lanes, cache_folder
from tvm_ios.errors import UserError
from tvm_ios.program.arena.planner import plan_lane_memory, plan_memory
from tvm_ios.program.compiled_unit import CompiledUnit
from tvm_ios.program.lower import lower_stages, recorded_latency
from tvm_ios.program.program import UnitCode
from tvm_ios.program.program_builder import ConstantName
from tvm_ios.progress import Steps
from tvm_ios.schedule.schedule import UNROLLED_FROM, Schedule, ScheduleError, Stage

if TYPE_CHECKING:
    from runtime_ext.scheduled_module import ScheduledModule
    from runtime_ext.units.unit import UnitSource
    from runtime_ext.units.unit_compiler import UnitCompiler

Array = np.ndarray[Any, Any]


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
    compiler = compiler or backend(target, lanes, cache_folder() / "kernels").compiler
    read = read_scheduled_module(module, name)
    require_lanes(read.schedule, lanes)
    graph = read.graph
    memory = arrange(graph, read.functions)
    sources = {
        str(i): memory.source(function, op.inputs, op.outputs)
        for i, (op, function) in enumerate(zip(graph.operators, read.functions, strict=True))
    }
    usual = compiler.compile(sources, progress)
    compiled = {**usual, **_chosen(compiler, read, sources)}
    constants: dict[str, Array] = {}
    constant_names: dict[tuple[int, int], str] = {}
    for i, (op, values) in enumerate(zip(graph.operators, read.constants, strict=True)):
        unit = compiled[str(i)]
        for k, use in enumerate(unit.constants):
            packed = use.transform.apply(values[use.parameter - len(op.inputs)].value.numpy())
            key = content_key(packed)
            constants[key] = packed
            constant_names[i, len(op.inputs) + k] = key

    def own_constant(units: tuple[int, ...], parameter: int) -> str:
        return constant_names[units[0], parameter]

    constant_name: ConstantName = own_constant
    code = {i: compiled[str(i)].code for i in range(len(graph))}
    merged: Mapping[Stage, UnitCode] = {}
    if compiler.fuser is not None:
        placed = {read.stages[place]: placement for place, placement in read.placements.items()}
        fused = compiler.fuser.fused(graph, placed, code, own_constant, memory.parts)
        merged, constant_name = fused.merged, fused.constant_name
        constants |= fused.tables

    program = lower_stages(
        graph,
        read.stages,
        code,
        merged,
        lanes=lanes,
        unit_latency=recorded_latency(read.stages, read.unit_latencies, lanes),
        constant_name=constant_name,
        parts=memory.parts,
        placements=read.placements,
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


def _chosen(
    compiler: UnitCompiler, read: ScheduledModule, sources: Mapping[str, UnitSource]
) -> dict[str, CompiledUnit]:
    """The code of the units whose rKernel the schedule names."""
    for unit, kernel in read.kernels.items():
        names = compiler.rkernels(sources[str(unit)])
        if kernel not in names:
            raise UserError(
                f"unit {read.graph.operators[unit].name!r} has no kernel {kernel!r}, only "
                f"{', '.join(names)}: schedule anew, with the tuning log if there was one"
            )
    only = {str(unit): kernel for unit, kernel in read.kernels.items()}
    made = compiler.compile_rkernels({name: sources[name] for name in only}, only=only)
    return {name: form for name, forms in made.items() for form in forms.values()}
