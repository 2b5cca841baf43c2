"""Measured costs: stages are built as small programs and timed on a device."""

from __future__ import annotations

import copy
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from runtime_ext.device import NO_CONSTANTS, Device, Kernels, UnfusedError, UnsupportedError
from runtime_ext.kernels.compiled_unit import CompiledUnit
from runtime_ext.rkernel_profile import task_seconds
from tvm_ios.array_files import Array
from tvm_ios.cost.log import MeasurementLog, quietest
from tvm_ios.cost.stage_key import stage_key
from tvm_ios.graph import OpGraph
from tvm_ios.lower import lower_stages
from tvm_ios.program import Part, Program, UnitCode
from tvm_ios.program_builder import NO_PARTS
from tvm_ios.rkernel import RKernel
from tvm_ios.schedule import Schedule, Stage, Strategy
from tvm_ios.search.rammer import co_schedule
from tvm_ios.search.rprogram import RProgram

#: Gives what the kernels' maker takes for one unit, or for several merged ones.
Source = Callable[[tuple[int, ...]], Any]
#: Called with what is done, how much of it, and how much there is.
Progress = Callable[[str, int, int], None]

#: A stage without launches, such as a concatenation in place; logs hold positive numbers.
_NOTHING_SECONDS = 1e-9


class StageTimer:
    """A cost model that measures, and remembers in a log.

    Parameters
    ----------
    graph
        The graph of units.
    source
        What ``kernels`` takes for units and merged units.
    kernels
        Makes their code.
    device
        Where it is timed.
    log
        Where samples are kept; a run measures equal stages of any model once.
    parts
        Tensors that lie in others, as the sources have it.
    """

    name = "measured"
    is_lower_bound = False

    def __init__(
        self,
        graph: OpGraph,
        source: Source,
        kernels: Kernels,
        device: Device,
        log: MeasurementLog,
        parts: Mapping[int, Part] = NO_PARTS,
    ) -> None:
        self.graph = graph
        self.device = device
        self.lanes = device.lanes
        self.parts = parts
        self.stages_measured = 0
        self._source = source
        self.kernels = kernels
        self._log = log
        self._compiled: dict[tuple[int, ...], CompiledUnit] = {}
        self._generated: dict[tuple[int, ...], CompiledUnit] = {}
        self._latency: dict[str, tuple[float, ...]] = {}
        #: For each unit key the forms by the names of the rKernels.
        self._forms: dict[str, dict[str, CompiledUnit]] = {}
        self._rkernels: dict[str, tuple[RKernel, ...]] = {}
        self._rprograms: dict[tuple[int, ...], RProgram] = {}
        #: Stages that a GPU could not take as one kernel: how many, by the reason.
        self.unfused: dict[str, int] = {}
        #: Units that a kernel library does not compute: how many, by the reason.
        self.unsupported: dict[str, int] = {}

    def compile_units(self, progress: Progress | None = None) -> None:
        """Compile the kernels of every unit."""
        units = [(unit,) for unit in range(len(self.graph))]
        self._compile(units, progress)

    def measure_units(self, progress: Progress | None = None) -> None:
        """Time every distinct unit alone on 1 to all lanes."""
        keys = {self.unit_key(self.graph, unit): unit for unit in range(len(self.graph))}
        for done, (key, unit) in enumerate(keys.items()):
            if progress is not None:
                progress("timing units", done, len(keys))
            stage = Stage(Strategy.CONCURRENT, ((unit,),))
            label = f"unit {self.graph.operators[unit].name}"
            latencies = [self._median(stage, lanes, label) for lanes in self._lane_counts()]
            self._latency[key] = self._on_lanes(latencies)
        if progress is not None:
            progress("timing units", len(keys), len(keys))

    def measure_rkernels(self, progress: Progress | None = None) -> None:
        """Compile and profile every rKernel of every distinct unit."""
        keys = {self.unit_key(self.graph, unit): unit for unit in range(len(self.graph))}
        self._compile_rkernels(tuple(keys.values()), progress)
        for done, unit in enumerate(keys.values()):
            if progress is not None:
                progress("profiling rKernels", done, len(keys))
            self.rkernels(unit)
        if progress is not None:
            progress("profiling rKernels", len(keys), len(keys))

    def rkernels(self, unit: int) -> tuple[RKernel, ...]:
        """The ways to compute a unit, from the log or measured now.

        The first is the one that stages use unless a schedule says otherwise. Whoever wants those
        of all units calls :meth:`measure_rkernels` first, which compiles them in parallel.
        """
        used = self.compiled((unit,))
        if used.key not in self._rkernels:
            if used.key not in self._forms:
                self._compile_rkernels((unit,), None)
            forms = self._forms[used.key]
            usual = self.generated((unit,)).key
            names = sorted(forms, key=lambda name: forms[name].key != usual)
            self._rkernels[used.key] = tuple(self._rkernel(unit, n, forms[n]) for n in names)
        return self._rkernels[used.key]

    def reading(self, log: MeasurementLog) -> StageTimer:
        """A timer of the same compiled units that knows what another log does."""
        other = copy.copy(self)
        other._log, other._latency, other._rkernels, other._rprograms = log, {}, {}, {}
        return other

    def rprogram(self, stage: Stage) -> RProgram:
        """What a co-scheduled stage runs: its units placed by their profiled times."""
        if stage.units not in self._rprograms:
            fuser = self.kernels.fuser
            self._rprograms[stage.units] = (
                co_schedule(self.graph, stage.units, self.rkernels, self.lanes)
                if fuser is None
                else fuser.rprogram(self.graph, stage.units, self.rkernels, self.rkernel_code)
            )
        return self._rprograms[stage.units]

    def rprogram_latency(self, program: RProgram) -> float:
        """Median seconds of an rProgram, from the log or measured now.

        Infinite where it would have to be one kernel and cannot be.
        """
        first = self.graph.operators[program.units[0]].name
        label = f"{Strategy.CO_SCHEDULE.value} {len(program.units)} units from {first}"
        try:
            return self._logged(
                self._program_key(program), lambda: self._measure_program(program), label
            )
        except UnfusedError as error:
            self.unfused[str(error)] = self.unfused.get(str(error), 0) + 1
            return math.inf

    def recall_units(self) -> None:
        """Take the latencies of units from the log, where it has them on all numbers of lanes."""
        for unit in range(len(self.graph)):
            stage = Stage(Strategy.CONCURRENT, ((unit,),))
            logged = [self._log.measurements.get(self._key(stage, n)) for n in self._lane_counts()]
            seconds = [quietest(found) for found in logged if found]
            if len(seconds) == len(logged):
                self._latency[self.unit_key(self.graph, unit)] = self._on_lanes(seconds)

    @property
    def unit_latencies(self) -> dict[str, tuple[float, ...]]:
        """For each unit key the seconds alone on 1, 2, ... lanes."""
        return dict(self._latency)

    def timed(self, schedule: Schedule) -> Schedule:
        """A schedule with the latencies of its units, as far as they are known."""
        if not self._latency:
            return schedule
        keys = {unit: self.unit_key(self.graph, unit) for unit in range(len(self.graph))}
        known = {unit: self._latency[key] for unit, key in keys.items() if key in self._latency}
        return replace(schedule, unit_latencies=known)

    def _lane_counts(self) -> Sequence[int]:
        return range(1, self.lanes + 1) if self.device.splits else (self.lanes,)

    def _on_lanes(self, seconds: Sequence[float]) -> tuple[float, ...]:
        return tuple(seconds) if self.device.splits else tuple(seconds) * self.lanes

    def unit_key(self, graph: OpGraph, unit: int) -> str:
        """What units of equal code share."""
        return self.compiled((unit,)).key

    def unit_latency(self, unit: int, lanes: int) -> float:
        """Seconds of a unit alone on so many lanes."""
        return self._latency[self.unit_key(self.graph, unit)][lanes - 1]

    def stage_key(self, graph: OpGraph, stage: Stage) -> str:
        """What stages share that one measurement serves."""
        return self._key(stage, self.lanes)

    def stage_latency(self, graph: OpGraph, stage: Stage) -> float:
        """Median seconds of a stage, from the log or measured now."""
        if stage.strategy is Strategy.CO_SCHEDULE:
            return self.rprogram_latency(self.rprogram(stage))
        return self._median(stage, self.lanes, _label(self.graph, stage))

    def compiled(self, units: tuple[int, ...]) -> CompiledUnit:
        """The code of one unit, or of several merged ones."""
        if units not in self._compiled:
            self._compile([units], None)
        return self._compiled[units]

    def generated(self, units: tuple[int, ...]) -> CompiledUnit:
        """The code of one unit, or of several merged ones, that calls no kernel library."""
        self.compiled(units)
        return self._generated[units]

    def with_libraries(self, schedule: Schedule) -> Schedule:
        """A schedule that names the kernel library of each unit for which that is the fastest."""
        pieces: list[tuple[int, ...]] = []
        for stage in schedule.stages:
            if stage.strategy is Strategy.CONCURRENT:
                pieces += [(unit,) for unit in stage.units]
            elif stage.strategy is Strategy.MERGE:
                pieces.append(tuple(sorted(stage.units)))
        libraries = {units: self.compiled(units).library for units in pieces}
        called = {u: library for units, library in libraries.items() if library for u in units}
        return replace(schedule, kernels={**schedule.kernels, **called}) if called else schedule

    def _compile(self, wanted: Sequence[tuple[int, ...]], progress: Progress | None) -> None:
        sources = {str(i): self._source(units) for i, units in enumerate(wanted)}

        def report(done: int, total: int) -> None:
            if progress is not None:
                progress("compiling kernels", done, total)

        made = self.kernels.compile_forms(sources, report)
        for i, units in enumerate(wanted):
            forms = made[str(i)]
            own = [form for form in forms if not form.library]
            self._compiled[units] = self._generated[units] = own[0]
            if len(forms) > 1:
                seconds = {form.key: self._seconds(units, form) for form in forms}
                fastest = min(forms, key=lambda form: seconds[form.key])
                self._compiled[units] = fastest
                self._generated[units] = min(own, key=lambda form: seconds[form.key])
                self.kernels.keep(forms, self._generated[units])

    def _seconds(self, units: tuple[int, ...], form: CompiledUnit) -> float:
        """Seconds of one of the forms of a unit; infinite if a library does not compute it."""
        try:
            return self._alone(units, form)
        except UnsupportedError as error:
            self.unsupported[str(error)] = self.unsupported.get(str(error), 0) + 1
            return math.inf

    def _alone(self, units: tuple[int, ...], form: CompiledUnit) -> float:
        """Median seconds of a unit, or of merged ones, in one of its forms on all lanes."""
        strategy = Strategy.CONCURRENT if len(units) == 1 else Strategy.MERGE
        stage = Stage(strategy, tuple((unit,) for unit in units))
        used = self._compiled[units]
        self._compiled[units] = form
        try:
            return self._median(stage, self.lanes, _label(self.graph, stage))
        finally:
            self._compiled[units] = used

    def _compile_rkernels(self, units: Sequence[int], progress: Progress | None) -> None:
        sources = {str(unit): self._source((unit,)) for unit in units}

        def report(done: int, total: int) -> None:
            if progress is not None:
                progress("compiling rKernels", done, total)

        made = self.kernels.compile_rkernels(sources, report)
        self._forms |= {self.unit_key(self.graph, unit): made[str(unit)] for unit in units}

    def _rkernel(self, unit: int, name: str, form: CompiledUnit) -> RKernel:
        label = f"unit {self.graph.operators[unit].name}, rKernel {name}"

        def profile() -> list[list[float]]:
            stage = Stage(Strategy.CONCURRENT, ((unit,),))
            code = {unit: form.code}
            program = lower_stages(self.graph, (stage,), code, lanes=1, parts=self.parts)
            return self.device.profile_phases(program, self.kernels.function)

        seconds = task_seconds(form.code, form.key, self._log, label, profile)
        if self.kernels.fuser is not None:
            return self.kernels.fuser.rkernel(name, form.code, seconds)
        return RKernel(
            name=name,
            tasks=tuple(call.tiles for call in form.code.calls),
            task_seconds=seconds,
            seconds=self._alone((unit,), form),
        )

    def _key(self, stage: Stage, lanes: int) -> str:
        if stage.strategy is Strategy.CO_SCHEDULE:
            return self._program_key(self.rprogram(stage))
        conditions = f"{lanes} lanes, warm"
        if stage.strategy is Strategy.MERGE:
            conditions += f", {self.compiled(tuple(sorted(stage.units))).key}"
        return stage_key(self.graph, stage, self.unit_key, conditions)

    def _program_key(self, program: RProgram) -> str:
        """Of what is measured: the code of the chosen rKernels, and where their rTasks run."""
        place = {unit: number for number, unit in enumerate(program.units)}
        shares = [(place[s.unit], s.phase, s.lane, s.begin, s.end) for s in program.placement]
        return stage_key(
            self.graph,
            Stage(Strategy.CO_SCHEDULE, (program.units,)),
            lambda _, unit: self._form(unit, program.kernels[unit].name).key,
            f"{self.lanes} lanes, warm, {shares}",
        )

    def _form(self, unit: int, rkernel: str) -> CompiledUnit:
        return self._forms[self.unit_key(self.graph, unit)][rkernel]

    def rkernel_code(self, unit: int, rkernel: str) -> UnitCode:
        """The code of one of a unit's rKernels."""
        return self._form(unit, rkernel).code

    def _median(self, stage: Stage, lanes: int, label: str) -> float:
        return self._logged(self._key(stage, lanes), lambda: self._measure(stage, lanes), label)

    def _logged(self, key: str, measure: Callable[[], list[float]], label: str) -> float:
        if self._log.wants(key):
            self._log.append(key, measure(), label)
            self.stages_measured += 1
        return quietest(self._log.measurements[key])

    def end_run(self) -> None:
        """Say in the log that all was measured; see :meth:`MeasurementLog.end_run`."""
        self._log.end_run()

    def _measure_program(self, program: RProgram) -> list[float]:
        stage = Stage(Strategy.CO_SCHEDULE, (program.units,))
        code = {unit: self.rkernel_code(unit, program.kernels[unit].name) for unit in program.units}
        fused = None
        if self.kernels.fuser is not None:
            placed = {stage: program.placement}
            fused = self.kernels.fuser.fused(self.graph, placed, code, None, self.parts)
        lowered = lower_stages(
            self.graph,
            (stage,),
            code,
            *(() if fused is None else (fused.merged,)),
            lanes=self.lanes,
            constant_name=None if fused is None else fused.constant_name,
            parts=self.parts,
            placements={0: program.placement},
        )
        return self._timed(lowered, NO_CONSTANTS if fused is None else fused.tables)

    def _timed(
        self, program: Program, constants: Mapping[str, Array] = NO_CONSTANTS
    ) -> list[float]:
        if not program.kernels:
            return [_NOTHING_SECONDS]
        if not constants:
            return self.device.time_program(program, self.kernels.function)
        return self.device.time_program(program, self.kernels.function, constants)

    def _measure(self, stage: Stage, lanes: int) -> list[float]:
        code: dict[int, UnitCode] = {}
        merged: dict[Stage, UnitCode] = {}
        if stage.strategy is Strategy.MERGE:
            merged[stage] = self.compiled(tuple(sorted(stage.units))).code
        else:
            code = {unit: self.compiled((unit,)).code for unit in stage.units}
        program = lower_stages(
            self.graph,
            (stage,),
            code,
            merged,
            lanes=lanes,
            unit_latency=self.unit_latency if len(stage.groups) > 1 and not merged else None,
            parts=self.parts,
        )
        return self._timed(program)


def _label(graph: OpGraph, stage: Stage) -> str:
    groups = (",".join(graph.operators[u].name for u in group) for group in stage.groups)
    return f"{stage.strategy.value} {' | '.join(groups)}"
