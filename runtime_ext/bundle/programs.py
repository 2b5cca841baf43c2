"""Lower a schedule to a program of bundled kernels, with its constants and memory plan."""

from __future__ import annotations

from runtime_ext.backend import Backend
from runtime_ext.bundle.contents import Bundle
from runtime_ext.bundle.kernels import BundledKernels
from runtime_ext.execution.model_program import (
    ModelProgram,
    ModelUnits,
    compiled_pieces,
    lower_units,
)
from runtime_ext.execution.ports import ports
from tvm_ios.measuring.stage_timer import StageTimer
from tvm_ios.program.arena.planner import plan_quickly
from tvm_ios.program.happens_before import check_races
from tvm_ios.schedule.schedule import Schedule


def bundled_program(
    bundle: Bundle, backend: Backend[BundledKernels], timer: StageTimer, schedule: Schedule
) -> ModelProgram:
    """Lower a schedule to a program, with the forms of units that the timer finds fastest.

    Raise UserError if the schedule is not of the bundle's graph or names kernels that it lacks.
    """
    graph = bundle.graph
    schedule.validate(graph)
    for units in compiled_pieces(schedule.stages):
        # Keeps the fastest of several forms.
        timer.forms(units)
    lowered = lower_units(
        ModelUnits(
            graph,
            bundle.parts,
            lambda units: units,
            bundle.function_weights,
            {tensor: bundle.weights[key] for tensor, key in bundle.constant_outputs.items()},
        ),
        schedule,
        backend.compiler,  # pyright: ignore[reportArgumentType]
        lanes=backend.device.lanes,
        unit_latency=timer.unit_latency if timer.unit_latencies else None,
    )
    program = lowered.program
    check_races(program)
    tensors = [tensor for _, tensor in bundle.outputs]
    return ModelProgram(
        program,
        lowered.constants,
        plan_quickly(program),
        ports(program, graph, graph.inputs, bundle.inputs),
        ports(program, graph, tensors, (name for name, _ in bundle.outputs)),
    )
