"""Profiles of rKernels: how long one rTask of each phase takes on one lane."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping, Sequence

from tvm_ios.costs.log import MeasurementLog, quietest
from tvm_ios.measuring.chosen_forms import ChosenForms, Seconds
from tvm_ios.measuring.measured_units import MeasuredUnits
from tvm_ios.measuring.timing_device import UntimedError
from tvm_ios.program.compiled_unit import CompiledUnit
from tvm_ios.program.lower import lower_stages
from tvm_ios.program.program import UnitCode
from tvm_ios.progress import Progress
from tvm_ios.schedule.rkernel import RKernel
from tvm_ios.schedule.stage import Stage, Strategy

#: What stands in a log for no overhead, in seconds.
_NO_OVERHEAD = 1e-12


class ProfiledRKernels:
    """The ways to compute each unit, compiled and profiled when they are asked for.

    Parameters
    ----------
    units
        The units of a graph, and where they are timed.
    chosen
        The form of each unit that stages use.
    seconds
        Times a form of a unit alone on all lanes.
    """

    def __init__(self, units: MeasuredUnits, chosen: ChosenForms, seconds: Seconds) -> None:
        self._units, self._chosen, self._seconds = units, chosen, seconds
        #: For each unit key the forms by the names of the rKernels.
        self._forms: dict[str, dict[str, CompiledUnit]] = {}
        self._profiled: dict[str, tuple[RKernel, ...]] = {}

    def __call__(self, unit: int) -> tuple[RKernel, ...]:
        """The ways to compute a unit, from the log or measured now.

        The first is the one that stages use unless a schedule says otherwise. Whoever wants those
        of all units calls :meth:`measure` first, which compiles them in parallel.
        """
        key = self._key(unit)
        if key not in self._profiled:
            self._profiled[key] = self._timed(unit, self.forms(unit))
        return self._profiled[key]

    def compile(self, progress: Progress | None = None) -> tuple[int, ...]:
        """Compile every rKernel of every distinct unit; gives these units."""
        graph = self._units.graph
        distinct = tuple({self._key(unit): unit for unit in range(len(graph))}.values())
        self._compile(distinct, progress)
        return distinct

    def measure(self, progress: Progress | None = None) -> None:
        """Compile and profile every rKernel of every distinct unit."""
        distinct = self.compile(progress)
        for done, unit in enumerate(distinct):
            if progress is not None:
                progress("profiling rKernels", done, len(distinct))
            self(unit)
        if progress is not None:
            progress("profiling rKernels", len(distinct), len(distinct))

    def forms(self, unit: int) -> dict[str, CompiledUnit]:
        """A unit's rKernels by their names, the usual one first."""
        key = self._key(unit)
        if key not in self._forms:
            self._compile((unit,))
        forms, usual = self._forms[key], self._chosen.generated((unit,)).key
        names = sorted(forms, key=lambda name: forms[name].key != usual)
        return {name: forms[name] for name in names}

    def form(self, unit: int, name: str) -> CompiledUnit:
        """One of a unit's rKernels."""
        return self._forms[self._key(unit)][name]

    def code(self, unit: int, name: str) -> UnitCode:
        """The code of one of a unit's rKernels."""
        return self.form(unit, name).code

    def share(self, other: ProfiledRKernels) -> None:
        """Use the rKernels that another one has compiled, and will, but not its profiles."""
        self._forms = other._forms

    def _key(self, unit: int) -> str:
        return self._chosen((unit,)).key

    def _compile(self, units: Sequence[int], progress: Progress | None = None) -> None:
        sources = {str(unit): self._units.source((unit,)) for unit in units}

        def report(done: int, total: int) -> None:
            if progress is not None:
                progress("compiling rKernels", done, total)

        compiled = self._units.kernels.compile_rkernels(sources, report)
        self._forms |= {self._key(unit): compiled[str(unit)] for unit in units}

    def _timed(self, unit: int, forms: Mapping[str, CompiledUnit]) -> tuple[RKernel, ...]:
        """The rKernels that the device can time; the usual one has to be among them."""
        kernels: list[RKernel] = []
        for name, form in forms.items():
            try:
                kernels.append(self._rkernel(unit, name, form))
            except UntimedError:
                if not kernels:
                    raise
        return tuple(kernels)

    def _rkernel(self, unit: int, name: str, form: CompiledUnit) -> RKernel:
        units = self._units
        label = f"unit {units.graph.operators[unit].name}, rKernel {name}"

        def profile() -> list[list[float]]:
            stage = Stage(Strategy.CONCURRENT, ((unit,),))
            code = {unit: form.code}
            program = lower_stages(units.graph, (stage,), code, lanes=1, parts=units.parts)
            return units.device.profile_phases(program, units.kernels.function)

        seconds = _task_seconds(form, units.log, label, profile)
        if units.kernels.fuser is not None:
            overhead = self.launch_overhead()
            return units.kernels.fuser.rkernel(name, form.code, seconds, overhead)
        return RKernel(
            name=name,
            tasks=tuple(call.tiles for call in form.code.calls),
            task_seconds=seconds,
            seconds=self._seconds((unit,), form),
        )

    def launch_overhead(self) -> float:
        """Seconds that a launch takes beside its kernel, from the log or as the device says now."""
        log = self._units.log
        if log.wants(_LAUNCH_KEY):
            # Logs hold positive numbers.
            samples = [max(s, _NO_OVERHEAD) for s in self._units.device.launch_overhead()]
            log.append(_LAUNCH_KEY, samples, "what a launch costs")
        return quietest(log.measurements[_LAUNCH_KEY])


def _task_seconds(
    form: CompiledUnit,
    log: MeasurementLog,
    label: str,
    profile: Callable[[], list[list[float]]],
) -> tuple[float, ...]:
    """Seconds of a task of each phase, from the log or profiled now.

    Equal code of any unit is profiled once.
    """
    keys = [_phase_key(form.key, phase) for phase in range(len(form.code.calls))]
    if any(map(log.wants, keys)):
        for phase, (key, samples) in enumerate(zip(keys, profile(), strict=True)):
            log.append(key, samples, f"{label}, task of phase {phase}")
    return tuple(quietest(log.measurements[key]) for key in keys)


def _phase_key(key: str, phase: int) -> str:
    return _log_key("task", key, phase, "1 lane, warm")


def _log_key(*parts: str | int) -> str:
    return hashlib.sha256(json.dumps(parts).encode()).hexdigest()


_LAUNCH_KEY = _log_key("launch overhead", "1 lane, warm")
