"""A device that takes several programs at once, and kernels for it that do nothing."""

from __future__ import annotations

import random
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tvm_ios.costs.log import MeasurementLog
from tvm_ios.costs.log_lines import LogHeader
from tvm_ios.graph.op_graph import OpGraph
from tvm_ios.measuring.device import Function
from tvm_ios.measuring.measured_units import MeasuredUnits
from tvm_ios.measuring.stage_timer import StageTimer
from tvm_ios.measuring.timing_device import UntimedError
from tvm_ios.program.compiled_unit import CompiledUnit
from tvm_ios.program.program import BufferType, PhaseCall, Program, UnitCode

#: Seconds in which even a busy machine goes on with a thread.
_PATIENCE = 0.05
VECTOR = BufferType((16,))


@dataclass
class SleepingDevice:
    """Says what a program takes by its content; equal programs take the same.

    It answers when it has been asked about as many as it takes, or nobody else asks for a while.
    """

    #: How many programs it takes at once.
    concurrency: int
    #: Of which programs there is no time.
    untimed: Callable[[Program], bool] = lambda program: False

    lanes: int = 2
    splits: bool = True
    name: str = "sleeping"
    #: Programs that it was asked about.
    calls: int = 0
    #: How many it was asked about at once.
    most: int = 0
    #: How many times it was asked about one when it was asked about no other.
    rounds: int = 0

    _inside: int = 0
    _full: int = 0
    _changed: threading.Condition = field(default_factory=threading.Condition)

    def time_program(
        self, program: Program, function: Function, constants: Mapping[str, Any] = {}
    ) -> list[float]:
        self._answer(program, function)
        drawn = random.Random(repr((program.lanes, program.kernels)))
        launches = sum(map(len, program.lanes))
        return [1e-4 * launches**0.5 * drawn.uniform(0.5, 1)] * 3

    def profile_phases(self, program: Program, function: Function) -> list[list[float]]:
        self._answer(program, function)
        drawn = random.Random(repr(program.kernels))
        return [[1e-5 * drawn.uniform(0.5, 1)] for _ in program.lanes[0]]

    def launch_overhead(self) -> list[float]:
        return [0.0]

    def _answer(self, program: Program, function: Function) -> None:
        assert [function(symbol) for symbol in program.kernels] == [*program.kernels]
        with self._changed:
            self.calls += 1
            self.rounds += not self._inside
            self._inside += 1
            self.most = max(self.most, self._inside)
            if self._inside == self.concurrency:
                self._full += 1
                self._changed.notify_all()
            else:
                before = self._full
                self._changed.wait_for(lambda: self._full > before, _PATIENCE)
            self._inside -= 1
        if self.untimed(program):
            raise UntimedError("the device does without this one")


class NoKernels:
    """Code of units that nobody runs, each in two forms and with an rKernel of finer tiles."""

    fuser = None

    def __init__(self, graph: OpGraph) -> None:
        self._graph = graph

    def compile_forms(
        self, units: Mapping[str, Any], progress: Any = None
    ) -> dict[str, tuple[CompiledUnit, ...]]:
        return {n: (self._form(u, "tuned"), self._form(u, "default")) for n, u in units.items()}

    def compile_rkernels(
        self, units: Mapping[str, Any], progress: Any = None
    ) -> dict[str, dict[str, CompiledUnit]]:
        names = ("default", "tuned", "fine")
        return {n: {name: self._form(u, name) for name in names} for n, u in units.items()}

    def keep(self, forms: Sequence[CompiledUnit], best: CompiledUnit) -> None: ...

    def function(self, symbol: str) -> str:
        return symbol

    def _form(self, units: tuple[int, ...], name: str) -> CompiledUnit:
        operators = [self._graph.operators[unit] for unit in units]
        inside = {tensor for op in operators for tensor in op.outputs}
        data = len({tensor for op in operators for tensor in op.inputs} - inside)
        outputs = sum(len(op.outputs) for op in operators)
        key = f"{'+'.join(op.name for op in operators)} {name}"
        call = PhaseCall(key, 8 if name == "fine" else 4, tuple(range(data + outputs)))
        return CompiledUnit(
            UnitCode((VECTOR,) * (data + outputs), outputs, (), (call,)), (), key, (key,)
        )


def timer_of(graph: OpGraph, device: SleepingDevice, path: Path) -> StageTimer:
    """A timer of a graph whose log is a file."""
    log = MeasurementLog(path, LogHeader(device.name, "target", "tvm"))
    kernels = NoKernels(graph)
    return StageTimer(MeasuredUnits(graph, lambda units: units, kernels, device, log, {}))
