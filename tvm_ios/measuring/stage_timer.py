"""Measured costs: stages are built as small programs and timed on a device."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from tvm_ios.costs.log import MeasurementLog, quietest
from tvm_ios.costs.stage_key import stage_key
from tvm_ios.errors import UnfusedError
from tvm_ios.files.array_files import Array
from tvm_ios.graph.op_graph import OpGraph
from tvm_ios.measuring.chosen_forms import ChosenForms
from tvm_ios.measuring.device import NO_CONSTANTS
from tvm_ios.measuring.measured_units import MeasuredUnits
from tvm_ios.measuring.rkernel_profile import ProfiledRKernels
from tvm_ios.measuring.timing_device import UntimedError
from tvm_ios.program.compiled_unit import CompiledUnit
from tvm_ios.program.lower import lower_stages
from tvm_ios.program.program import Program, UnitCode
from tvm_ios.progress import Progress
from tvm_ios.rammer.rprogram import RProgram
from tvm_ios.rammer.wavefront import co_schedule
from tvm_ios.schedule.schedule import Schedule
from tvm_ios.schedule.stage import Stage, Strategy, sequential_stages

#: The code of one unit, or of several merged ones.
Forms = Callable[[tuple[int, ...]], CompiledUnit]

#: A stage without launches, such as a concatenation in place; logs hold positive numbers.
_NOTHING_SECONDS = 1e-9


class StageTimer:
    """A cost model that measures, and remembers in a log.

    Parameters
    ----------
    units
        What is measured, and with what.

    Attributes
    ----------
    forms
        The code of units and merged units that stages run.
    rkernels
        The ways to compute a unit.
    stages_measured
        How many were not in the log.
    unfused
        Stages that a GPU could not take as one kernel: how many, by the reason.
    untimed
        Stages of which the device has no time: how many, by the reason.
    """

    name = "measured"

    def __init__(self, units: MeasuredUnits) -> None:
        self.graph = units.graph
        self.kernels = units.kernels
        self.device = units.device
        self.lanes = units.device.lanes
        self.forms = ChosenForms(units, self._alone)
        self.rkernels = ProfiledRKernels(units, self.forms, self._alone)
        self.stages_measured = 0
        self.unfused: dict[str, int] = {}
        self.untimed: dict[str, int] = {}
        self._units = units
        self._log = units.log
        self._latency: dict[str, tuple[float, ...]] = {}
        self._rprograms: dict[tuple[int, ...], RProgram] = {}
        self._compiled = False

    def reading(self, log: MeasurementLog) -> StageTimer:
        """A timer of the same compiled units that reads another log."""
        other = StageTimer(replace(self._units, log=log))
        other.forms.share(self.forms)
        other.rkernels.share(self.rkernels)
        other._compiled = self._compiled
        return other

    def compile_units(self, progress: Progress | None = None) -> None:
        """Compile the kernels of every unit, if that was not done before."""
        if self._compiled:
            return
        self.forms.compile([(unit,) for unit in range(len(self.graph))], progress)
        self._compiled = True

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

    def recall_units(self) -> None:
        """Take the latencies of units from the log, where it has them on all numbers of lanes."""
        for unit in range(len(self.graph)):
            stage = Stage(Strategy.CONCURRENT, ((unit,),))
            keys = [self._key(stage, lanes, self.forms) for lanes in self._lane_counts()]
            logged = [self._log.measurements.get(key) for key in keys]
            seconds = [quietest(samples) for samples in logged if samples]
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
        latencies = {unit: self._latency[key] for unit, key in keys.items() if key in self._latency}
        return replace(schedule, unit_latencies=latencies)

    def unit_key(self, graph: OpGraph, unit: int) -> str:
        """What units of equal code share."""
        return self.forms((unit,)).key

    def unit_latency(self, unit: int, lanes: int) -> float:
        """Seconds of a unit alone on so many lanes."""
        return self._latency[self.unit_key(self.graph, unit)][lanes - 1]

    def stage_key(self, graph: OpGraph, stage: Stage) -> str:
        """What stages share that one measurement serves."""
        if stage.strategy is Strategy.CO_SCHEDULE:
            return self._program_key(self.rprogram(stage))
        return self._key(stage, self.lanes, self.forms)

    def stage_latency(self, graph: OpGraph, stage: Stage) -> float:
        """Median seconds of a stage, from the log or measured now; infinite if untimed."""
        if stage.strategy is Strategy.CO_SCHEDULE:
            return self.rprogram_latency(self.rprogram(stage))
        try:
            return self._median(stage, self.lanes, _label(self.graph, stage))
        except UntimedError as error:
            return self._without_time(error)

    def rprogram(self, stage: Stage) -> RProgram:
        """What a co-scheduled stage runs: its units placed by their profiled times."""
        if stage.units not in self._rprograms:
            fuser = self.kernels.fuser
            self._rprograms[stage.units] = (
                co_schedule(self.graph, stage.units, self.rkernels, self.lanes)
                if fuser is None
                else fuser.rprogram(self.graph, stage.units, self.rkernels, self.rkernels.code)
            )
        return self._rprograms[stage.units]

    def rprogram_latency(self, program: RProgram) -> float:
        """Median seconds of an rProgram, from the log or measured now.

        Infinite where it would have to be one kernel and cannot be, or is untimed.
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
        except UntimedError as error:
            return self._without_time(error)

    def sequential_latency(self, progress: Progress | None = None) -> float:
        """Seconds of all units one after another, each alone on all lanes."""
        self.compile_units(progress)
        stages = sequential_stages(self.graph)
        return sum(self.stage_latency(self.graph, stage) for stage in stages)

    def end_run(self) -> None:
        """Say in the log that all was measured; see :meth:`MeasurementLog.end_run`."""
        self._log.end_run()

    def _without_time(self, error: UntimedError) -> float:
        self.untimed[str(error)] = self.untimed.get(str(error), 0) + 1
        return math.inf

    def _lane_counts(self) -> Sequence[int]:
        return range(1, self.lanes + 1) if self.device.splits else (self.lanes,)

    def _on_lanes(self, seconds: Sequence[float]) -> tuple[float, ...]:
        return tuple(seconds) if self.device.splits else tuple(seconds) * self.lanes

    def _alone(self, units: tuple[int, ...], form: CompiledUnit) -> float:
        """Median seconds of a unit, or of merged ones, in one of its forms on all lanes."""
        strategy = Strategy.CONCURRENT if len(units) == 1 else Strategy.MERGE
        stage = Stage(strategy, tuple((unit,) for unit in units))

        def forms(asked: tuple[int, ...]) -> CompiledUnit:
            return form if asked == units else self.forms(asked)

        return self._median(stage, self.lanes, _label(self.graph, stage), forms)

    def _median(self, stage: Stage, lanes: int, label: str, forms: Forms | None = None) -> float:
        forms = forms or self.forms
        key = self._key(stage, lanes, forms)
        return self._logged(key, lambda: self._measure(stage, lanes, forms), label)

    def _logged(self, key: str, measure: Callable[[], list[float]], label: str) -> float:
        if self._log.wants(key):
            self._log.append(key, measure(), label)
            self.stages_measured += 1
        return quietest(self._log.measurements[key])

    def _key(self, stage: Stage, lanes: int, forms: Forms) -> str:
        conditions = f"{lanes} lanes, warm"
        if stage.strategy is Strategy.MERGE:
            conditions += f", {forms(tuple(sorted(stage.units))).key}"
        return stage_key(self.graph, stage, lambda _, unit: forms((unit,)).key, conditions)

    def _program_key(self, program: RProgram) -> str:
        """A key of what is measured: the chosen rKernels' code, and where their rTasks run."""
        place = {unit: number for number, unit in enumerate(program.units)}
        shares = [(place[s.unit], s.phase, s.lane, s.begin, s.end) for s in program.placement]
        return stage_key(
            self.graph,
            Stage(Strategy.CO_SCHEDULE, (program.units,)),
            lambda _, unit: self.rkernels.form(unit, program.kernels[unit].name).key,
            f"{self.lanes} lanes, warm, {shares}",
        )

    def _measure(self, stage: Stage, lanes: int, forms: Forms) -> list[float]:
        code: dict[int, UnitCode] = {}
        merged: dict[Stage, UnitCode] = {}
        if stage.strategy is Strategy.MERGE:
            merged[stage] = forms(tuple(sorted(stage.units))).code
        else:
            code = {unit: forms((unit,)).code for unit in stage.units}
        program = lower_stages(
            self.graph,
            (stage,),
            code,
            merged,
            lanes=lanes,
            unit_latency=self.unit_latency if len(stage.groups) > 1 and not merged else None,
            parts=self._units.parts,
        )
        return self._samples(program)

    def _measure_program(self, program: RProgram) -> list[float]:
        stage = Stage(Strategy.CO_SCHEDULE, (program.units,))
        chosen = {unit: program.kernels[unit].name for unit in program.units}
        code = {unit: self.rkernels.code(unit, name) for unit, name in chosen.items()}
        fused = None
        if self.kernels.fuser is not None:
            placed = {stage: program.placement}
            fused = self.kernels.fuser.fused(self.graph, placed, code, None, self._units.parts)
        lowered = lower_stages(
            self.graph,
            (stage,),
            code,
            {} if fused is None else fused.merged,
            lanes=self.lanes,
            constant_name=None if fused is None else fused.constant_name,
            parts=self._units.parts,
            placements={0: program.placement},
        )
        return self._samples(lowered, NO_CONSTANTS if fused is None else fused.tables)

    def _samples(
        self, program: Program, constants: Mapping[str, Array] = NO_CONSTANTS
    ) -> list[float]:
        """Seconds of some runs of a program."""
        if not program.kernels:
            return [_NOTHING_SECONDS]
        return self.device.time_program(program, self.kernels.function, constants)


def _label(graph: OpGraph, stage: Stage) -> str:
    groups = (",".join(graph.operators[u].name for u in group) for group in stage.groups)
    return f"{stage.strategy.value} {' | '.join(groups)}"
