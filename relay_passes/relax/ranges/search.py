"""Search schedules of a range's units at single shapes, by measuring the kernels of the range."""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from relay_passes.measured_module import measurement_log
from relay_passes.search_options import SearchOptions
from runtime_ext.backend import Backend
from runtime_ext.execution.buffers import PackedConstants
from runtime_ext.execution.built_model import BuiltModel
from runtime_ext.scheduled_units import ScheduledUnits
from runtime_ext.unit_build import build_units, sources_of
from tvm_ios.graph.op_graph import OpGraph
from tvm_ios.measuring.chosen_forms import CompiledForms
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
_Forms = tuple[CompiledUnit, ...]
#: A form must gain more than this share, in the mean of shapes, and take less than this multiple of
#: the default's time at each of them.
_MARGIN, _SLOWEST = 0.03, 1.1


class OpenSearch:
    """The compiled units of a range, of which schedules are searched at single shapes.

    Costs are measured with the range's own kernels: nothing more is compiled.

    Attributes
    ----------
    kernels
        The name of the form of each unit that has not the default one, as chosen by
        :meth:`choose_forms`; its programs compute units in these.
    """

    def __init__(
        self,
        units: ScheduledUnits,
        backend: Backend[Any],
        options: SearchOptions,
        progress: Progress = silent,
    ) -> None:
        self._units, self._backend, self._options = units, backend, options
        self._packed = PackedConstants()
        self._log = measurement_log(backend, options)
        self._parts, self._forms = self._compile(partial(progress, "compiling kernels"))
        #: For each unit of several forms the ratios of a form's time to the default's at shapes.
        self._ratios: dict[int, dict[str, list[float]]] = {}
        self.kernels: dict[int, str] = {}
        self._shapes: Sequence[Values] = ()

    @unequal_if_undecided()
    def _compile(self, progress: Steps) -> tuple[Mapping[int, Any], dict[_Units, _Forms]]:
        compiler = self._backend.compiler
        parts, source = sources_of(self._units, compiler)
        pieces = {str(unit): source((unit,)) for unit in range(len(self._units.graph))}
        compiled = compiler.compile_forms(pieces, progress)
        return parts, {(int(unit),): forms for unit, forms in compiled.items()}

    @unequal_if_undecided()
    def choose_forms(self, shapes: Sequence[Values], progress: Progress = silent) -> None:
        """Time the forms of units at shapes, and choose for each unit the fastest in their mean.

        It is not much slower than the default at any of them. A unit has one form at all shapes,
        because each has weights of its own.
        """
        self._shapes = shapes
        several = [units for units, forms in self._forms.items() if len(forms) > 1]
        for number, values in enumerate(shapes if several else ()):
            progress("timing forms", number, len(shapes))
            timer, compiled = self._timer(values, self._forms)
            timer.forms.compile(several)
            for units in several:
                seconds = {form.name: s for form, s in compiled.timed[units].values()}
                ratios = self._ratios.setdefault(units[0], {})
                for name, taken in seconds.items():
                    ratios.setdefault(name, []).append(taken / seconds[""])
        progress("timing forms", len(shapes), len(shapes))
        self._choose()

    def other_forms(self) -> list[tuple[Values, dict[int, str]]]:
        """Return the forms that are fastest at timed shapes, where they are not :attr:`kernels`.

        A program can have them in boxes of its shapes.
        """
        fastest = [
            (values, self._chosen(lambda ratios, n=number: ratios[n]))
            for number, values in enumerate(self._shapes)
        ]
        return [(values, kernels) for values, kernels in fastest if kernels != self.kernels]

    def leave_out(self, name: str) -> None:
        """Choose again, among forms of other names."""
        for ratios in self._ratios.values():
            ratios.pop(name, None)
        self._choose()

    def _choose(self) -> None:
        def mean(ratios: Sequence[float]) -> float:
            return statistics.geometric_mean(ratios) if max(ratios) < _SLOWEST else math.inf

        self.kernels = self._chosen(mean)

    def _chosen(self, cost: Callable[[Sequence[float]], float]) -> dict[int, str]:
        """Return the form of least cost of each unit whose default costs more."""
        chosen: dict[int, str] = {}
        for unit, ratios in self._ratios.items():
            costs = {name: cost(each) for name, each in ratios.items()}
            best = min(costs, key=lambda name: costs[name])
            if costs[best] < 1 - _MARGIN:
                chosen[unit] = best
        return chosen

    def at(self, values: Values, kernels: Mapping[int, str], progress: Progress = silent) -> Search:
        """Return a search for the shape with these values of the symbols, of units in forms."""
        # Without its name, because the search has nothing to choose.
        chosen = {
            (unit,): [replace(f, name="") for f in forms if f.name == kernels.get(unit, "")]
            for (unit,), forms in self._forms.items()
        }
        timer, _ = self._timer(values, chosen)
        graph = timer.graph
        limits = self._options.limits
        # Merged units would be other ones, of which the range has no kernels.
        problem = replace(Problem.of(graph, limits.max_block), mergeable=_never)
        return Search(problem, measured_costs(timer, progress), limits, progress)

    def build(
        self, schedule: Schedule | None = None, kernels: Mapping[int, str] | None = None
    ) -> BuiltModel:
        """Build the program of a schedule that was found at a shape, for all shapes.

        Without one, units run one after another. ``kernels`` are the forms of units, by default
        :attr:`kernels`.
        """
        kernels = self.kernels if kernels is None else kernels
        known, graph = self._units.schedule, self._units.graph
        if kernels:
            numbers = {name: number for number, name in enumerate(known["units"])}
            names = {str(numbers[graph.operators[u].name]): name for u, name in kernels.items()}
            known = {**known, "kernels": names}
        units = replace(self._units, kernels=kernels, schedule=known)
        if schedule is not None:
            latencies = schedule.unit_latencies
            units = replace(units, stages=schedule.stages, unit_latencies=latencies)
        return build_units(units, self._backend.compiler, self._options.lanes, packed=self._packed)

    def _timer(
        self, values: Values, forms: Mapping[_Units, Sequence[CompiledUnit]]
    ) -> tuple[StageTimer, CompiledForms]:
        """Return a timer of units at a shape, with the times that it will have measured."""
        graph = _graph_at(self._units.graph, values)
        kernels = _KernelsAt(self._backend.compiler, forms, values)
        parts, compiled = at_values(self._parts, values), CompiledForms()
        device = self._backend.device
        units = MeasuredUnits(graph, _itself, kernels, device, self._log, parts)
        return StageTimer(units, compiled), compiled


@dataclass(frozen=True)
class _KernelsAt:
    """The kernels of a range at one of its shapes: a :class:`tvm_ios.measuring.device.Kernels`."""

    compiler: Any
    compiled: Mapping[_Units, Sequence[CompiledUnit]]
    values: Values
    fuser: None = None

    def compile_forms(
        self, units: Mapping[str, _Units], progress: Steps | None = None
    ) -> dict[str, tuple[CompiledUnit, ...]]:
        """Return the code of units at the shape."""
        return {name: tuple(map(self._code, self.compiled[u])) for name, u in units.items()}

    def compile_rkernels(
        self, units: Mapping[str, _Units], progress: Steps | None = None
    ) -> dict[str, dict[str, CompiledUnit]]:
        """Return the code of units at the shape, by the names of their forms."""
        return {
            name: {form.name or "default": self._code(form) for form in self.compiled[unit]}
            for name, unit in units.items()
        }

    def chain_kernels(self, source: Any) -> int:
        """Return 0: chains were found before."""
        return 0

    def keep(self, forms: Sequence[CompiledUnit], best: CompiledUnit) -> None:
        """Choose nothing: programs are built of the forms that the search has chosen."""

    def function(self, symbol: str) -> Any:
        """Return the function of a kernel's symbol."""
        return self.compiler.function(symbol)

    def _code(self, compiled: CompiledUnit) -> CompiledUnit:
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
