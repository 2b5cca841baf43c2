"""Compile units and their schedule to a model that runs: kernels, program, packed weights."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

import numpy as np

from runtime_ext.execution.buffers import PackedConstants
from runtime_ext.execution.built_model import BuiltModel
from runtime_ext.execution.model_program import ModelUnits, lower_units
from runtime_ext.execution.ports import ports
from runtime_ext.scheduled_units import ScheduledUnits, require_lanes
from runtime_ext.units.in_place import Arrangement, arrange
from tvm_ios.files.array_files import Array
from tvm_ios.program.arena.planner import plan_lane_memory, plan_memory, plan_open_memory
from tvm_ios.program.bfloat16 import FORM
from tvm_ios.program.lower import recorded_latency
from tvm_ios.progress import Steps
from tvm_ios.schedule.schedule import UNROLLED_FROM
from tvm_ios.shapes.extent import unequal_if_undecided

if TYPE_CHECKING:
    from runtime_ext.units.unit import UnitSource
    from runtime_ext.units.unit_compiler import UnitCompiler
    from tvm_ios.program.program import Part


def arrangement(units: ScheduledUnits, compiler: UnitCompiler) -> Arrangement:
    """Return the placement of the tensors between units in memory."""
    encodings = compiler.encodings
    if FORM not in units.kernels.values():
        encodings -= {FORM}
    return arrange(units.graph, units.functions, encodings, compiler.line)


def sources_of(
    units: ScheduledUnits, compiler: UnitCompiler
) -> tuple[Mapping[int, Part], Callable[[tuple[int, ...]], UnitSource]]:
    """Return the tensors that are parts of others, and the compiler's sources of units."""
    graph, memory = units.graph, arrangement(units, compiler)

    def source(members: tuple[int, ...]) -> UnitSource:
        op, first = graph.operators[members[0]], members[0]
        return memory.source(units.functions[first], op.inputs, op.outputs, units.constants[first])

    return memory.parts, source


@unequal_if_undecided()
def build_units(
    units: ScheduledUnits,
    compiler: UnitCompiler,
    lanes: int,
    progress: Steps | None = None,
    packed: PackedConstants | None = None,
) -> BuiltModel:
    """Compile the units of a schedule, and lower it to a program of ``lanes`` threads or streams.

    The compiler may have the kernels already; ``packed`` has constants that were packed for other
    programs. Raise ScheduleError if the schedule has placed instances on more lanes, UserError if
    it names an rKernel that a unit does not have.
    """
    require_lanes(units.schedule, lanes)
    graph = units.graph
    parts, source = sources_of(units, compiler)

    def weights(members: tuple[int, ...]) -> list[Array]:
        # Not copied, because packed constants are looked up by their address.
        return [np.from_dlpack(constant.value) for constant in units.constants[members[0]]]

    constant_outputs = {t: value.value.numpy() for t, value in units.constant_outputs.items()}
    lowered = lower_units(
        ModelUnits(graph, parts, source, weights, constant_outputs, packed or PackedConstants()),
        units,
        compiler,  # pyright: ignore[reportArgumentType]
        lanes=lanes,
        unit_latency=recorded_latency(units.stages, units.unit_latencies, lanes),
        progress=progress,
    )
    # Lanes that run whole instances have a region of the arena each, which stays in their caches.
    program = lowered.program
    plan = plan_lane_memory if UNROLLED_FROM in units.schedule else plan_memory
    if program.symbols:
        plan = plan_open_memory
    return BuiltModel(
        program=program,
        memory=plan(program),
        kernels=compiler,  # pyright: ignore[reportArgumentType]
        constants=lowered.constants,
        inputs=ports(program, graph, graph.inputs, (graph.tensors[t].name for t in graph.inputs)),
        outputs=ports(program, graph, graph.outputs, units.output_names),
        schedule=units.schedule,
        unit_notes=lowered.unit_notes,
    )
