"""Measured costs: stages are built as small programs and timed on a device."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import pairwise

from tvm_ios.clock import OutOfTimeError
from tvm_ios.costs.log import MEASUREMENTS, MeasurementLog, ReadOnlyLog, quietest
from tvm_ios.costs.stage_key import stage_key
from tvm_ios.errors import UnfusedError
from tvm_ios.files.array_files import Array
from tvm_ios.graph.op_graph import OpGraph
from tvm_ios.measuring.chosen_chains import ChosenChains
from tvm_ios.measuring.chosen_forms import ChosenForms, CompiledForms, Piece
from tvm_ios.measuring.device import NO_CONSTANTS
from tvm_ios.measuring.measured_units import MeasuredUnits
from tvm_ios.measuring.measurer import Measurement, Measurer, Outcome, Samples, logged_outcome
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

#: Returns the code of one unit, or of several merged ones.
Forms = Callable[[tuple[int, ...]], CompiledUnit]

#: If a further lane gains less than this share of the possible gain, other work may have slowed it
#: down.
_LITTLE = 0.25
#: Seconds of a stage without launches, such as a concatenation in place: logs hold positive numbers
#: only.
_NOTHING_SECONDS = 1e-9


class StageTimer:
    """A cost model that measures stages on a device, and keeps the results in a log.

    Attributes
    ----------
    forms
        The code of units and merged units that stages run.
    chains
        Chooses the chains of schedules.
    rkernels
        The rKernels of each unit.
    unfused
        The number of stages that a GPU could not take as one kernel, by the reason.
    untimed
        The number of stages of which the device has no time, by the reason.
    until
        When measuring units ends, by :func:`time.perf_counter`.
    """

    name = "measured"

    def __init__(self, units: MeasuredUnits, compiled: CompiledForms | None = None) -> None:
        self.graph = units.graph
        self.kernels = units.kernels
        self.device = units.device
        self.lanes = units.device.lanes
        self._measurer = Measurer(units.log, units.device.concurrency)
        self._compiled = compiled or CompiledForms()
        self.forms = ChosenForms(units, self._alone, self._compiled)
        self.chains = ChosenChains(units, self.forms, self._measurer, self._timing)
        self.rkernels = ProfiledRKernels(
            units, self.forms, self._alone, self._measurer, self._compiled
        )
        self.unfused: dict[str, int] = {}
        self.untimed: dict[str, int] = {}
        self.until = math.inf
        self._units = units
        self._log = units.log
        self._latency: dict[str, tuple[float, ...]] = {}
        self._rprograms: dict[tuple[int, ...], RProgram] = {}

    @property
    def stages_measured(self) -> int:
        """The number of stages that were not in the log."""
        return self._measurer.stages_measured

    def reading(self, log: MeasurementLog) -> StageTimer:
        """Return a timer of the same compiled units that reads another log."""
        return StageTimer(replace(self._units, log=log), self._compiled)

    def compile_units(self, progress: Progress | None = None) -> None:
        """Compile the kernels of every unit, if that was not done before."""
        if self._compiled.complete:
            return
        self.forms.compile([(unit,) for unit in range(len(self.graph))], progress)
        self._compiled.complete = True

    def measure_units(self, progress: Progress | None = None) -> None:
        """Time every distinct unit alone on 1 to all lanes."""
        keys = {self.unit_key(self.graph, unit): unit for unit in range(len(self.graph))}
        try:
            self._measure_units(keys, progress)
        except OutOfTimeError:
            # Lowering needs the latencies of all units, or of none.
            self._latency.clear()
            raise
        for times in range(2, MEASUREMENTS + 1):
            doubtful = {k: u for k, u in keys.items() if _gains_little(self._latency[k])}
            self._measure_units(doubtful, times=times)

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
        """Return the schedule with the latencies of its units, as far as they are known."""
        if not self._latency:
            return schedule
        keys = {unit: self.unit_key(self.graph, unit) for unit in range(len(self.graph))}
        latencies = {unit: self._latency[key] for unit, key in keys.items() if key in self._latency}
        return replace(schedule, unit_latencies=latencies)

    def unit_key(self, graph: OpGraph, unit: int) -> str:
        """Return the key of a unit's code, equal for units of equal code."""
        return self.forms((unit,)).key

    def unit_latency(self, unit: int, lanes: int) -> float:
        """Return the seconds of a unit alone on ``lanes`` lanes."""
        return self._latency[self.unit_key(self.graph, unit)][lanes - 1]

    def stage_key(self, graph: OpGraph, stage: Stage) -> str:
        """Return the key of a stage, equal for stages that one measurement serves."""
        if stage.strategy is Strategy.CO_SCHEDULE:
            return self._program_key(self.rprogram(stage))
        return self._key(stage, self.lanes, self.forms)

    def stage_latency(self, graph: OpGraph, stage: Stage) -> float:
        """Return a stage's median seconds, from the log or measured; infinite if untimed."""
        return next(self.stage_latencies([stage]))

    def stage_latencies(self, stages: Iterable[Stage]) -> Iterator[float]:
        """Return the median seconds of stages, in order, as :meth:`stage_latency` does.

        As many are measured at once as the device takes; stages are taken from the iterable no
        sooner than :meth:`Measurer.outcomes` says.
        """
        return map(self._finite_or_not, self._measurer.outcomes(map(self._measurement, stages)))

    def rprogram(self, stage: Stage) -> RProgram:
        """Return the rProgram of a co-scheduled stage: its units placed by their profiled times."""
        if stage.units not in self._rprograms:
            fuser = self.kernels.fuser
            self._rprograms[stage.units] = (
                co_schedule(self.graph, stage.units, self.rkernels, self.lanes)
                if fuser is None
                else fuser.rprogram(self.graph, stage.units, self.rkernels, self.rkernels.code)
            )
        return self._rprograms[stage.units]

    def rprogram_latencies(self, programs: Iterable[RProgram]) -> Iterator[float]:
        """Return the median seconds of rPrograms, in order, from the log or measured now.

        Infinite for one that is untimed, or would have to be one kernel and cannot be.
        """
        return map(self._finite_or_not, self._measurer.outcomes(map(self._rprogram, programs)))

    def sequential_latency(self, progress: Progress | None = None) -> float:
        """Return the seconds of all units one after another, each alone on all lanes."""
        self.compile_units(progress)
        stages = sequential_stages(self.graph)
        return sum(self.stage_latencies(stages))

    def end_run(self) -> None:
        """Note in the log that the run is complete; see :meth:`MeasurementLog.end_run`."""
        self._log.end_run()

    def _measure_units(
        self, keys: Mapping[str, int], progress: Progress | None = None, *, times: int = 1
    ) -> None:
        counts, operators = self._lane_counts(), self.graph.operators
        measurements = (
            self._stage(
                Stage(Strategy.CONCURRENT, ((unit,),)),
                lanes,
                f"unit {operators[unit].name}",
                times=times,
            )
            for unit in keys.values()
            for lanes in counts
        )
        outcomes = self._measurer.outcomes(measurements)
        for done, key in enumerate(keys):
            if progress is not None:
                progress("timing units", done, len(keys))
            self._latency[key] = self._on_lanes([_seconds(next(outcomes)) for _ in counts])
        if progress is not None:
            progress("timing units", len(keys), len(keys))

    def _finite_or_not(self, outcome: Outcome) -> float:
        """Return an outcome's seconds; count it and return infinity if it has none."""
        if isinstance(outcome.error, UnfusedError | UntimedError):
            reasons = self.unfused if isinstance(outcome.error, UnfusedError) else self.untimed
            reasons[str(outcome.error)] = reasons.get(str(outcome.error), 0) + 1
            return math.inf
        return _seconds(outcome)

    def _lane_counts(self) -> Sequence[int]:
        return range(1, self.lanes + 1) if self.device.splits else (self.lanes,)

    def _on_lanes(self, seconds: Sequence[float]) -> tuple[float, ...]:
        return tuple(seconds) if self.device.splits else tuple(seconds) * self.lanes

    def _alone(self, pieces: Iterable[Piece], *, times: int = 1) -> Iterator[Outcome]:
        """Return the outcomes of units or merged units, each in a given form alone on all lanes."""

        def measurement(units: tuple[int, ...], form: CompiledUnit) -> Measurement:
            strategy = Strategy.CONCURRENT if len(units) == 1 else Strategy.MERGE
            stage = Stage(strategy, tuple((unit,) for unit in units))

            def forms(asked: tuple[int, ...]) -> CompiledUnit:
                return form if asked == units else self.forms(asked)

            return self._stage(stage, self.lanes, _label(self.graph, stage), forms, times=times)

        measurements = (measurement(*piece) for piece in pieces)
        if isinstance(self._log, ReadOnlyLog):
            return map(self._in_log, measurements)
        return self._measurer.outcomes(measurements)

    def _in_log(self, measurement: Measurement) -> Outcome:
        """Return a measurement's outcome from a read-only log; an error if it lacks it."""
        if any(map(self._log.wants, measurement.labels)):
            return Outcome((), UntimedError("the log has no time of it"))
        return logged_outcome(self._log, measurement)

    def _measurement(self, stage: Stage) -> Measurement:
        """Return the measurement of a stage of any strategy on all lanes."""
        if stage.strategy is Strategy.CO_SCHEDULE:
            return self._rprogram(self.rprogram(stage))
        return self._stage(stage, self.lanes, _label(self.graph, stage))

    def _stage(
        self, stage: Stage, lanes: int, label: str, forms: Forms | None = None, *, times: int = 1
    ) -> Measurement:
        """Return the measurement of a stage that is not co-scheduled."""
        chosen = forms or self.forms
        key = self._key(stage, lanes, chosen)
        return Measurement(
            {key: label}, lambda: self._timing(self._lowered(stage, lanes, chosen)), times=times
        )

    def _rprogram(self, program: RProgram) -> Measurement:
        first = self.graph.operators[program.units[0]].name
        label = f"{Strategy.CO_SCHEDULE.value} {len(program.units)} units from {first}"
        return Measurement(
            {self._program_key(program): label}, lambda: self._lowered_program(program)
        )

    def _key(self, stage: Stage, lanes: int, forms: Forms) -> str:
        conditions = f"{lanes} lanes, warm"
        if stage.strategy is Strategy.MERGE:
            conditions += f", {forms(tuple(sorted(stage.units))).key}"
        return stage_key(self.graph, stage, lambda _, unit: forms((unit,)).key, conditions)

    def _program_key(self, program: RProgram) -> str:
        """Return an rProgram's log key: its rKernels' code, and where rTasks run."""
        place = {unit: number for number, unit in enumerate(program.units)}
        shares = [(place[s.unit], s.phase, s.lane, s.begin, s.end) for s in program.placement]
        return stage_key(
            self.graph,
            Stage(Strategy.CO_SCHEDULE, (program.units,)),
            lambda _, unit: self.rkernels.form(unit, program.kernels[unit].name).key,
            f"{self.lanes} lanes, warm, {shares}",
        )

    def _lowered(self, stage: Stage, lanes: int, forms: Forms) -> Program:
        code: dict[int, UnitCode] = {}
        merged: dict[Stage, UnitCode] = {}
        if stage.strategy is Strategy.MERGE:
            merged[stage] = forms(tuple(sorted(stage.units))).code
        else:
            code = {unit: forms((unit,)).code for unit in stage.units}
        return lower_stages(
            self.graph,
            (stage,),
            code,
            merged,
            lanes=lanes,
            unit_latency=self.unit_latency if len(stage.groups) > 1 and not merged else None,
            parts=self._units.parts,
        )

    def _lowered_program(self, program: RProgram) -> Callable[[], Samples]:
        stage = Stage(Strategy.CO_SCHEDULE, (program.units,), placement=program.placement)
        chosen = {unit: program.kernels[unit].name for unit in program.units}
        code = {unit: self.rkernels.code(unit, name) for unit, name in chosen.items()}
        fused = None
        if self.kernels.fuser is not None:
            fused = self.kernels.fuser.fused(self.graph, [stage], code, None, self._units.parts)
        lowered = lower_stages(
            self.graph,
            (stage,),
            code,
            {} if fused is None else fused.merged,
            lanes=self.lanes,
            constant_name=None if fused is None else fused.constant_name,
            parts=self._units.parts,
        )
        return self._timing(lowered, NO_CONSTANTS if fused is None else fused.tables)

    def _timing(
        self, program: Program, constants: Mapping[str, Array] = NO_CONSTANTS
    ) -> Callable[[], Samples]:
        """Return a function that times a program.

        The program's functions are looked up at once, before several threads need theirs.
        """
        functions = {symbol: self.kernels.function(symbol) for symbol in program.kernels}
        if not functions:
            return lambda: [[_NOTHING_SECONDS]]
        return lambda: [self.device.time_program(program, functions.__getitem__, constants)]


def _gains_little(seconds: Sequence[float]) -> bool:
    """Return whether some lane more makes a unit hardly faster."""
    return seconds[0] > _NOTHING_SECONDS and any(
        more > fewer * (1 - _LITTLE / lanes)
        for lanes, (fewer, more) in enumerate(pairwise(seconds), 2)
    )


def _seconds(outcome: Outcome) -> float:
    """Return the seconds of the outcome of a measurement with one key."""
    (seconds,) = outcome.required()
    return seconds


def _label(graph: OpGraph, stage: Stage) -> str:
    groups = (",".join(graph.operators[u].name for u in group) for group in stage.groups)
    return f"{stage.strategy.value} {' | '.join(groups)}"
