"""Search schedules of a range's units at single shapes, by measuring the kernels of the range."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from relay_passes.measured_module import measurement_log
from relay_passes.search_options import SearchOptions
from runtime_ext.backend import Backend
from runtime_ext.execution.buffers import PackedConstants
from runtime_ext.execution.built_model import BuiltModel
from runtime_ext.scheduled_units import ScheduledUnits
from runtime_ext.unit_build import build_units, sources_of
from tvm_ios.graph.op_graph import OpGraph
from tvm_ios.measuring.measured_costs import measured_costs
from tvm_ios.measuring.measured_units import MeasuredUnits
from tvm_ios.measuring.stage_timer import StageTimer
from tvm_ios.policies.policy import Problem
from tvm_ios.program.compiled_unit import CompiledUnit
from tvm_ios.progress import Progress, Steps, silent
from tvm_ios.schedule.schedule import Schedule
from tvm_ios.search import Search
from tvm_ios.shapes.extent import at_values, evaluate, symbols_in, unequal_if_undecided
from tvm_ios.shapes.fitting import Values, values_text

_Units = tuple[int, ...]


class OpenSearch:
    """The compiled units of a range, of which schedules are searched at single shapes.

    Costs are measured with the range's own kernels: nothing more is compiled.
    """

    def __init__(
        self, units: ScheduledUnits, backend: Backend[Any], options: SearchOptions
    ) -> None:
        self._units, self._backend, self._options = units, backend, options
        self._packed = PackedConstants()
        self._log = measurement_log(backend, options)
        self._parts, self._compiled = self._compile()

    @unequal_if_undecided()
    def _compile(self) -> tuple[Mapping[int, Any], dict[_Units, CompiledUnit]]:
        compiler = self._backend.compiler
        parts, source = sources_of(self._units, compiler)
        pieces = {str(unit): source((unit,)) for unit in range(len(self._units.graph))}
        compiled = compiler.compile(pieces)
        return parts, {(int(unit),): code for unit, code in compiled.items()}

    def at(self, values: Values, progress: Progress = silent) -> Search:
        """Return a search for the shape with these values of the symbols."""
        graph = _graph_at(self._units.graph, values)
        kernels = _KernelsAt(self._backend.compiler, self._compiled, values)
        parts = at_values(self._parts, values)
        timer = StageTimer(
            MeasuredUnits(graph, _itself, kernels, self._backend.device, self._log, parts)
        )
        limits = self._options.limits
        # Merged units would be other ones, of which the range has no kernels.
        problem = replace(Problem.of(graph, limits.max_block), mergeable=_never)
        return Search(problem, measured_costs(timer, progress), limits, progress)

    def build(self, schedule: Schedule) -> BuiltModel:
        """Build the program of a schedule that was found at a shape, for all shapes."""
        latencies = schedule.unit_latencies
        units = replace(self._units, stages=schedule.stages, unit_latencies=latencies)
        return build_units(units, self._backend.compiler, self._options.lanes, packed=self._packed)


@dataclass(frozen=True)
class _KernelsAt:
    """The kernels of a range at one of its shapes: a :class:`tvm_ios.measuring.device.Kernels`."""

    compiler: Any
    compiled: Mapping[_Units, CompiledUnit]
    values: Values
    fuser: None = None

    def compile_forms(
        self, units: Mapping[str, _Units], progress: Steps | None = None
    ) -> dict[str, tuple[CompiledUnit, ...]]:
        """Return the code of units at the shape."""
        return {name: (self._code(unit),) for name, unit in units.items()}

    def compile_rkernels(
        self, units: Mapping[str, _Units], progress: Steps | None = None
    ) -> dict[str, dict[str, CompiledUnit]]:
        """Return the code of units at the shape, as their only rKernel."""
        return {name: {"default": self._code(unit)} for name, unit in units.items()}

    def chain_kernels(self, source: Any) -> int:
        """Return 0: chains were found before."""
        return 0

    def keep(self, forms: Sequence[CompiledUnit], best: CompiledUnit) -> None:
        """Do nothing: each unit has one form."""

    def function(self, symbol: str) -> Any:
        """Return the function of a kernel's symbol."""
        return self.compiler.function(symbol)

    def _code(self, unit: _Units) -> CompiledUnit:
        compiled = self.compiled[unit]
        names = {symbol.name for symbol in symbols_in(compiled.code)}
        names.update(name for call in compiled.code.calls for name in call.scalars)
        values = {name: self.values[name] for name in sorted(names)}
        key = f"{compiled.key} at {values_text(values)}" if values else compiled.key
        return replace(compiled, code=compiled.code.at(values), key=key)


def _graph_at(graph: OpGraph, values: Values) -> OpGraph:
    operators = (replace(op, flops=evaluate(op.flops, values)) for op in graph.operators)
    return replace(graph, tensors=at_values(graph.tensors, values), operators=tuple(operators))


def _itself(units: _Units) -> _Units:
    return units


def _never(graph: OpGraph, units: _Units) -> bool:
    return False
