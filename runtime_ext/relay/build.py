"""From a scheduled Relay module to something that runs: kernels, program, constants."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import tvm
import tvm_ffi

from runtime_ext.buffers import content_key
from runtime_ext.cpu_features import required_features
from runtime_ext.executable import PACKAGES, Executable
from runtime_ext.ir_form import CALLS, OUTPUT_NAMES, SCHEDULE, ModuleError
from runtime_ext.machine import available_lanes
from runtime_ext.relay.executor_graph import UnitGraph, read_executor_graph
from runtime_ext.relay.library import RelayLibrary, build_library, host_target
from runtime_ext.relay.tuning_log import read_autotvm_log
from runtime_ext.session import Port, Session, ports
from tvm_ios.arena.planner import PlannedMemory, plan_memory
from tvm_ios.files import temporary_folder
from tvm_ios.lower import lower_stages
from tvm_ios.program import Program
from tvm_ios.schedule import Stage, Strategy

Array = np.ndarray[Any, Any]


@dataclass(frozen=True)
class BuiltRelayModel:
    """A scheduled Relay module with its code.

    Attributes
    ----------
    program
        What the executor runs.
    memory
        Where its intermediate buffers and scratch lie.
    library
        Holds the kernels.
    target
        Of the kernels.
    constants
        Weights by content.
    inputs, outputs
        As the model names them.
    schedule
        The module's schedule as plain data.
    """

    program: Program
    memory: PlannedMemory
    library: RelayLibrary
    target: tvm.target.Target
    constants: Mapping[str, Array]
    inputs: tuple[Port, ...]
    outputs: tuple[Port, ...]
    schedule: Mapping[str, Any]

    @cached_property
    def _functions(self) -> dict[str, Any]:
        with temporary_folder() as folder:
            path = folder / "kernels.so"
            self.library.export(path)
            # The file may go once it is loaded.
            loaded = tvm_ffi.load_module(path)
        return {symbol: loaded[symbol] for symbol in self.program.kernels}

    def session(self, **options: Any) -> Session:
        """A session; options as of :class:`runtime_ext.session.Session`."""
        return Session(
            self.program,
            self._functions,
            self.constants,
            self.inputs,
            self.outputs,
            plan=self.memory.plan,
            **options,
        )

    def save(self, path: Path, notes: Mapping[str, Any] | None = None) -> None:
        """Write an executable, which runs where this TVM is not installed."""
        with temporary_folder() as folder:
            kernels = folder / "kernels.so"
            self.library.export(kernels)
            Executable(
                program=self.program,
                plan=self.memory.plan,
                kernels=kernels,
                constants=self.constants,
                inputs=self.inputs,
                outputs=self.outputs,
                schedule=self.schedule,
                target=str(self.target),
                features=required_features(self.target),
                fingerprint=self.schedule["fingerprint"],
                notes=notes or {},
                packages=PACKAGES[-1:],
            ).save(path)


def build(
    module: tvm.IRModule,
    *,
    target: Any = None,
    lanes: int | None = None,
    name: str = "model",
    log: Path | None = None,
) -> BuiltRelayModel:
    """Build what ``IOSSchedule`` made of a Relay module.

    Parameters
    ----------
    module
        A Relay module that carries a schedule.
    target
        A TVM target; this machine by default.
    lanes
        Threads; all that the process may use by default.
    name
        Of the model.
    log
        An AutoTVM log of tuned kernels.

    Raises
    ------
    ModuleError
        If the module carries no schedule, or a later pass changed its calls.
    TuningLogError
        If the log cannot be used.
    """
    attributes = dict(module.attrs.items()) if module.attrs else {}
    if SCHEDULE not in attributes or CALLS not in attributes:
        raise ModuleError("the module has no schedule: run IOSSchedule() on it first")
    lanes = lanes or available_lanes()
    target = tvm.target.Target(target or host_target(lanes))
    tuned = read_autotvm_log(log, target) if log else None
    library = build_library(module, target, log=tuned)
    weights = {name: value.numpy() for name, value in library.factory.get_params().items()}
    calls = [tuple(call) for call in json.loads(str(attributes[CALLS]))]
    read = read_executor_graph(
        library.factory.get_graph_json(), tuple(weights), calls, library.loops, name
    )
    keys = {name: content_key(value) for name, value in weights.items()}

    def constant_name(units: tuple[int, ...], parameter: int) -> str:
        unit = units[0]
        return keys[read.constants[unit][parameter - len(read.graph.operators[unit].inputs)]]

    program = lower_stages(
        read.graph,
        _stages(read),
        dict(enumerate(read.code)),
        lanes=lanes,
        constant_name=constant_name,
    )
    graph = read.graph
    names = json.loads(str(attributes.get(OUTPUT_NAMES, "[]")))
    names = names or [f"output{place}" for place in range(len(graph.outputs))]
    return BuiltRelayModel(
        program=program,
        memory=plan_memory(program),
        library=library,
        target=target,
        constants={keys[name]: value for name, value in weights.items()},
        inputs=ports(program, graph, graph.inputs, (graph.tensors[t].name for t in graph.inputs)),
        outputs=ports(program, graph, graph.outputs, names),
        schedule=json.loads(str(attributes[SCHEDULE])),
    )


def _stages(read: UnitGraph) -> tuple[Stage, ...]:
    """The stages of the calls; what is merged is one unit by now."""
    found: dict[int, dict[int, list[int]]] = {}
    for unit, (stage, group) in enumerate(read.places):
        found.setdefault(stage, {}).setdefault(group, []).append(unit)
    return tuple(
        Stage(Strategy.CONCURRENT, tuple(tuple(units) for _, units in sorted(groups.items())))
        for _, groups in sorted(found.items())
    )
