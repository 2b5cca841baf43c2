"""From units and their schedule to something that runs: kernels, program, packed weights."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from runtime_ext.execution.buffers import content_key
from runtime_ext.execution.built_model import BuiltModel
from runtime_ext.execution.ports import ports
from runtime_ext.scheduled_units import ScheduledUnits, require_lanes
from runtime_ext.units.in_place import arrange
from tvm_ios.errors import UserError
from tvm_ios.files.array_files import Array
from tvm_ios.program.arena.planner import plan_lane_memory, plan_memory
from tvm_ios.program.compiled_unit import CompiledUnit
from tvm_ios.program.lower import lower_stages, recorded_latency
from tvm_ios.program.program import UnitCode
from tvm_ios.program.program_builder import ConstantName
from tvm_ios.progress import Steps
from tvm_ios.schedule.schedule import UNROLLED_FROM, Stage

if TYPE_CHECKING:
    from runtime_ext.units.unit import UnitSource
    from runtime_ext.units.unit_compiler import UnitCompiler


def build_units(
    units: ScheduledUnits, compiler: UnitCompiler, lanes: int, progress: Steps | None = None
) -> BuiltModel:
    """Compile what a schedule runs.

    Parameters
    ----------
    units
        With their schedule.
    compiler
        Of the target; it may hold the kernels already.
    lanes
        Threads, or streams.
    progress
        Called with kernels compiled and all of them.

    Raises
    ------
    ScheduleError
        If the schedule has placed instances on more lanes.
    UserError
        If it names an rKernel that a unit has not.
    """
    require_lanes(units.schedule, lanes)
    graph = units.graph
    memory = arrange(graph, units.functions)
    sources = {
        str(i): memory.source(function, op.inputs, op.outputs)
        for i, (op, function) in enumerate(zip(graph.operators, units.functions, strict=True))
    }
    usual = compiler.compile(sources, progress)
    compiled = {**usual, **_chosen(compiler, units, sources)}
    constants: dict[str, Array] = {}
    constant_names: dict[tuple[int, int], str] = {}
    for i, (op, values) in enumerate(zip(graph.operators, units.constants, strict=True)):
        unit = compiled[str(i)]
        for k, use in enumerate(unit.constants):
            packed = use.transform.apply(values[use.parameter - len(op.inputs)])
            key = content_key(packed)
            constants[key] = packed
            constant_names[i, len(op.inputs) + k] = key

    def own_constant(members: tuple[int, ...], parameter: int) -> str:
        return constant_names[members[0], parameter]

    constant_name: ConstantName = own_constant
    code = {i: compiled[str(i)].code for i in range(len(graph))}
    merged: Mapping[Stage, UnitCode] = {}
    if compiler.fuser is not None:
        placed = {units.stages[place]: placement for place, placement in units.placements.items()}
        fused = compiler.fuser.fused(graph, placed, code, own_constant, memory.parts)
        merged, constant_name = fused.merged, fused.constant_name
        constants |= fused.tables

    program = lower_stages(
        graph,
        units.stages,
        code,
        merged,
        lanes=lanes,
        unit_latency=recorded_latency(units.stages, units.unit_latencies, lanes),
        constant_name=constant_name,
        parts=memory.parts,
        placements=units.placements,
    )
    # Lanes that run whole instances have a region of the arena each, which stays in their caches.
    plan = plan_lane_memory if UNROLLED_FROM in units.schedule else plan_memory
    return BuiltModel(
        program=program,
        memory=plan(program),
        kernels=compiler,
        constants=constants,
        inputs=ports(program, graph, graph.inputs, (graph.tensors[t].name for t in graph.inputs)),
        outputs=ports(program, graph, graph.outputs, units.output_names),
        schedule=units.schedule,
    )


def _chosen(
    compiler: UnitCompiler, units: ScheduledUnits, sources: Mapping[str, UnitSource]
) -> dict[str, CompiledUnit]:
    """The code of the units whose rKernel the schedule names."""
    for unit, kernel in units.kernels.items():
        names = compiler.rkernels(sources[str(unit)])
        if kernel not in names:
            raise UserError(
                f"unit {units.graph.operators[unit].name!r} has no kernel {kernel!r}, only "
                f"{', '.join(names)}: schedule anew, with the tuning log if there was one"
            )
    only = {str(unit): kernel for unit, kernel in units.kernels.items()}
    made = compiler.compile_rkernels({name: sources[name] for name in only}, only=only)
    return {name: form for name, forms in made.items() for form in forms.values()}
