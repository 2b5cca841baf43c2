"""Build the program of a scheduled Relay module: kernels, program, constants."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import tvm

from runtime_ext.execution.buffers import content_key
from runtime_ext.execution.built_model import BuiltModel
from runtime_ext.execution.model_program import constant_outputs
from runtime_ext.execution.packages.kernel_files import PACKAGES
from runtime_ext.execution.ports import ports
from runtime_ext.ir_form import attached_schedule, output_names
from runtime_ext.machine.this_machine import available_lanes
from runtime_ext.relay.executor_graph import UnitGraph, read_executor_graph
from runtime_ext.relay.in_place import concatenations, lay_in_place
from runtime_ext.relay.library import RelayLibrary, build_library, host_target
from runtime_ext.relay.scheduled_main import read_scheduled_main
from runtime_ext.relay.tuning_log import read_autotvm_log
from runtime_ext.scheduled_units import latencies_of_calls, require_lanes, stages_of_calls
from tvm_ios.program.arena.planner import plan_lane_memory, plan_memory
from tvm_ios.program.lower import lower_stages, recorded_latency
from tvm_ios.schedule.schedule import UNROLLED_FROM, Schedule


def build(
    module: tvm.IRModule,
    *,
    target: Any = None,
    lanes: int | None = None,
    name: str = "model",
    log: Path | None = None,
) -> BuiltModel:
    """Build a Relay module that ``IOSSchedule`` scheduled.

    ``target`` is by default this machine's, and ``lanes`` all threads that the process may use;
    ``log`` is an AutoTVM log of tuned kernels. Raise ModuleError if the module carries no schedule
    or a later pass changed its calls, ScheduleError if instances are placed on more lanes, and
    TuningLogError if the log cannot be used.
    """
    scheduled = read_scheduled_main(module)
    schedule = attached_schedule(module) or {}
    lanes = lanes or available_lanes()
    target = tvm.target.Target(target or host_target(lanes))
    return build_calls(
        scheduled.module,
        scheduled.places,
        schedule,
        target=target,
        lanes=lanes,
        name=name,
        log=log,
    )


def build_calls(
    module: tvm.IRModule,
    calls: Sequence[tuple[str, int, int]],
    schedule: Mapping[str, Any],
    *,
    target: tvm.target.Target,
    lanes: int,
    name: str,
    log: Path | None,
) -> BuiltModel:
    """Build a module whose ``main`` calls kernels in the order of a schedule.

    ``calls`` are the unit, stage and group of each call; ``schedule`` is JSON data, which the
    executable keeps. Raise errors as :func:`build` does.
    """
    require_lanes(schedule, lanes)
    tuned = read_autotvm_log(log, target) if log else None
    library = build_library(module, target, log=tuned)
    # Launches on a GPU are given addresses of whole buffers.
    on_cpu = isinstance(library, RelayLibrary)
    weights = {name: value.numpy() for name, value in library.factory.get_params().items()}
    unit_graph = read_executor_graph(
        library.factory.get_graph_json(), tuple(weights), calls, library.forms, name
    )
    concatenations_by_unit = concatenations(module["main"], calls)
    memory = lay_in_place(
        unit_graph, concatenations_by_unit if on_cpu else [None] * len(concatenations_by_unit)
    )
    keys = {name: content_key(value) for name, value in weights.items()}

    def constant_name(units: tuple[int, ...], parameter: int) -> str:
        unit = units[0]
        return keys[
            unit_graph.constants[unit][parameter - len(unit_graph.graph.operators[unit].inputs)]
        ]

    stages = stages_of_calls(unit_graph.places, Schedule.from_json(schedule))
    program = lower_stages(
        unit_graph.graph,
        stages,
        dict(enumerate(memory.code)),
        lanes=lanes,
        unit_latency=recorded_latency(stages, _latencies(unit_graph, schedule), lanes),
        constant_name=constant_name,
        parts=memory.parts,
    )
    graph = unit_graph.graph
    names = output_names(module, len(graph.outputs))
    return BuiltModel(
        program=program,
        # Lanes with whole instances have own regions, as in the build of Relax modules.
        memory=plan_lane_memory(program) if UNROLLED_FROM in schedule else plan_memory(program),
        kernels=replace(library, sliced=memory.sliced) if on_cpu else library,
        constants={keys[name]: value for name, value in weights.items()}
        | constant_outputs(
            graph, {t: weights[name] for t, name in unit_graph.constant_outputs.items()}
        ),
        inputs=ports(program, graph, graph.inputs, (graph.tensors[t].name for t in graph.inputs)),
        outputs=ports(program, graph, graph.outputs, names),
        schedule=schedule,
        packages=PACKAGES[-1:],
    )


def _latencies(unit_graph: UnitGraph, schedule: Mapping[str, Any]) -> dict[int, tuple[float, ...]]:
    """Return the recorded latencies of units, except merged ones, which have other names."""
    call_by_name = {op.name: call for call, op in enumerate(unit_graph.graph.operators)}
    calls = {
        u: call_by_name[name] for u, name in enumerate(schedule["units"]) if name in call_by_name
    }
    return latencies_of_calls(Schedule.from_json(schedule), calls)
