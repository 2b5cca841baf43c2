"""Profiles of rKernels: how long one rTask of each phase takes on one lane."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

from tvm_ios.costs.log import quietest
from tvm_ios.measuring.chosen_forms import ChosenForms, CompiledForms, TimePieces
from tvm_ios.measuring.measured_units import MeasuredUnits
from tvm_ios.measuring.measurer import Measurement, Measurer, Outcome, Samples
from tvm_ios.measuring.timing_device import UntimedError
from tvm_ios.program.compiled_unit import CompiledUnit
from tvm_ios.program.lower import lower_stages
from tvm_ios.program.program import UnitCode
from tvm_ios.progress import Progress
from tvm_ios.schedule.rkernel import RKernel
from tvm_ios.schedule.stage import Stage, Strategy

#: Seconds that a log holds for no overhead: it holds positive numbers only.
_NO_OVERHEAD = 1e-12


class ProfiledRKernels:
    """The rKernels of each unit, compiled and profiled when first asked for.

    ``chosen`` gives the form of each unit that stages use; ``time_pieces`` times forms of units,
    each alone on all lanes; ``measurer`` takes profiles. ``compiled`` keeps the rKernels' code.
    """

    def __init__(
        self,
        units: MeasuredUnits,
        chosen: ChosenForms,
        time_pieces: TimePieces,
        measurer: Measurer,
        compiled: CompiledForms,
    ) -> None:
        self._units, self._chosen, self._time_pieces = units, chosen, time_pieces
        self._measurer = measurer
        self._forms = compiled.rkernels
        self._profiled: dict[str, tuple[RKernel, ...]] = {}

    def __call__(self, unit: int) -> tuple[RKernel, ...]:
        """Return the rKernels of a unit, from the log or measured now.

        The first is the one that stages use unless a schedule names another. To have those of all
        units, call :meth:`measure` first: it compiles in parallel, and profiles as many at once as
        the device takes.
        """
        key = self._key(unit)
        if key not in self._profiled:
            self._profile([unit])
        return self._profiled[key]

    def compile(self, progress: Progress | None = None) -> tuple[int, ...]:
        """Compile every rKernel of every distinct unit, and return these units."""
        graph = self._units.graph
        distinct = tuple({self._key(unit): unit for unit in range(len(graph))}.values())
        self._compile(distinct, progress)
        return distinct

    def measure(self, progress: Progress | None = None) -> None:
        """Compile and profile every rKernel of every distinct unit."""
        distinct = self.compile(progress)
        self._profile([u for u in distinct if self._key(u) not in self._profiled], progress)

    def forms(self, unit: int) -> dict[str, CompiledUnit]:
        """Return a unit's rKernels by name, the usual one first.

        They include the form that stages run if it has a name, unless a library computes it: such a
        form has no rTasks.
        """
        key = self._key(unit)
        if key not in self._forms:
            self._compile((unit,))
        forms, usual = self._forms[key], self._chosen.generated((unit,)).key
        names = sorted(forms, key=lambda name: forms[name].key != usual)
        return {name: forms[name] for name in names}

    def form(self, unit: int, name: str) -> CompiledUnit:
        """Return one of a unit's rKernels."""
        return self._forms[self._key(unit)][name]

    def code(self, unit: int, name: str) -> UnitCode:
        """Return the code of one of a unit's rKernels."""
        return self.form(unit, name).code

    def _key(self, unit: int) -> str:
        return self._chosen((unit,)).key

    def _compile(self, units: Sequence[int], progress: Progress | None = None) -> None:
        sources = {str(unit): self._units.source((unit,)) for unit in units}

        def report(done: int, total: int) -> None:
            if progress is not None:
                progress("compiling rKernels", done, total)

        compiled = self._units.kernels.compile_rkernels(sources, report)
        for unit in units:
            fastest = self._chosen((unit,))
            named = {fastest.name: fastest} if fastest.name and not fastest.library else {}
            self._forms[self._key(unit)] = {**compiled[str(unit)], **named}

    def _profile(self, units: Sequence[int], progress: Progress | None = None) -> None:
        """Profile those rKernels of units that the device can time, and always the usual ones."""
        asked = [
            _Asked(unit, name, form) for unit in units for name, form in self.forms(unit).items()
        ]
        alone = iter(())
        profiles = self._measurer.outcomes(self._tasks(each) for each in asked)
        tasks: list[Outcome] = []
        for done, outcome in enumerate(profiles):
            tasks.append(outcome)
            if progress is not None:
                progress("profiling rKernels", done + 1, len(asked))
        if self._units.kernels.fuser is None:
            alone = self._time_pieces(
                ((each.unit,), each.form)
                for each, outcome in zip(asked, tasks, strict=True)
                if outcome.error is None
            )
        kernels: dict[int, list[RKernel]] = {unit: [] for unit in units}
        for each, outcome in zip(asked, tasks, strict=True):
            try:
                kernel = self._rkernel(each, outcome.required(), alone)
            except UntimedError:
                if not kernels[each.unit]:
                    raise
            else:
                kernels[each.unit].append(kernel)
        for unit in units:
            self._profiled[self._key(unit)] = tuple(kernels[unit])

    def _tasks(self, asked: _Asked) -> Measurement:
        """Return a measurement of a task of each phase; equal code is profiled once."""
        units, (unit, name, form) = self._units, asked
        label = f"unit {units.graph.operators[unit].name}, rKernel {name}"
        labels = {
            _log_key("task", form.key, phase, "1 lane, warm"): f"{label}, task of phase {phase}"
            for phase in range(len(form.code.calls))
        }

        def prepare() -> Callable[[], Samples]:
            stage = Stage(Strategy.CONCURRENT, ((unit,),))
            code = {unit: form.code}
            program = lower_stages(units.graph, (stage,), code, lanes=1, parts=units.parts)
            functions = {symbol: units.kernels.function(symbol) for symbol in program.kernels}
            return lambda: units.device.profile_phases(program, functions.__getitem__)

        return Measurement(labels, prepare, is_profile=True)

    def _rkernel(
        self, asked: _Asked, task_seconds: tuple[float, ...], alone: Iterator[Outcome]
    ) -> RKernel:
        fuser, code = self._units.kernels.fuser, asked.form.code
        if fuser is not None:
            return fuser.rkernel(asked.name, code, task_seconds, self.launch_overhead())
        (seconds,) = next(alone).required()
        tasks = tuple(call.tiles for call in code.calls)
        return RKernel(asked.name, tasks, task_seconds, seconds)

    def launch_overhead(self) -> float:
        """Return the seconds of a launch beside its kernel, from the log or the device."""
        log = self._units.log
        if log.wants(_LAUNCH_KEY):
            # Logs hold positive numbers only.
            samples = [max(s, _NO_OVERHEAD) for s in self._units.device.launch_overhead()]
            log.append(_LAUNCH_KEY, samples, "what a launch costs")
        return quietest(log.measurements[_LAUNCH_KEY])


class _Asked(NamedTuple):
    """A unit and one of its rKernels, which is to be profiled."""

    unit: int
    name: str
    form: CompiledUnit


def _log_key(*parts: str | int) -> str:
    return hashlib.sha256(json.dumps(parts).encode()).hexdigest()


_LAUNCH_KEY = _log_key("launch overhead", "1 lane, warm")
