"""Costs by a device of this machine: measured when asked for, or read from its log."""

from __future__ import annotations

import math
import time
from collections.abc import Iterable, Iterator
from functools import partial

from tvm_ios.clock import OutOfTimeError
from tvm_ios.costs.composed import ComposedCost
from tvm_ios.costs.costs import Costs, ProgramCosts
from tvm_ios.costs.log import MeasurementLog
from tvm_ios.costs.log_lines import LogError
from tvm_ios.costs.recorded import RecordedCost
from tvm_ios.graph.op_graph import OpGraph
from tvm_ios.measuring.measured_rtasks import (
    MeasuredRPrograms,
    MeasuredRTasks,
    can_co_schedule,
    placed_unit,
)
from tvm_ios.measuring.stage_timer import StageTimer
from tvm_ios.progress import Progress, silent
from tvm_ios.schedule.schedule import Schedule
from tvm_ios.schedule.stage import Stage, Strategy

_LATE = "not searched: the time limit had passed before all units were measured"


def measured_costs(
    timer: StageTimer,
    progress: Progress = silent,
    *,
    choose_forms: bool = False,
    places_tiles: bool = True,
    chains: bool = False,
    programs: ProgramCosts | None = None,
) -> Costs:
    """Return the costs that a timer measures.

    ``progress`` gets (what, done, total) while forms of units are timed. With ``choose_forms``,
    schedules name the fastest of each unit's forms; with ``chains``, they have chains where these
    are faster. ``places_tiles`` says that programs can run rKernels and rTask placements that a
    schedule names. ``programs`` builds and times whole programs, where they can run.
    """
    measuring = _StageMeasuring(timer)

    def completed(schedule: Schedule) -> Schedule:
        if choose_forms:
            # The faster form of a unit is known only after both were timed.
            measuring.bounds(progress)
            schedule = timer.forms.named(schedule)
        if chains and time.perf_counter() < timer.until:
            # Chains are timed on the lanes of their groups, which depend on the latencies of units.
            measuring.bounds(progress)
            schedule = timer.chains.chained(schedule, timer.unit_latency)
        return timer.timed(schedule)

    rtasks = MeasuredRTasks(timer, MeasuredRPrograms(timer)) if places_tiles else None
    return Costs("measured", timer.device.name, timer, measuring, rtasks, programs, completed)


def recorded_costs(
    timer: StageTimer,
    log: MeasurementLog,
    progress: Progress = silent,
    *,
    choose_forms: bool = False,
    places_tiles: bool = True,
) -> Costs:
    """Return the costs that a log holds, without measuring; stages that it lacks cannot be used.

    The timer compiles the units, because the log's keys are of their code. The log is of the same
    machine, or of one like it. The options are those of :func:`measured_costs`. Raise LogError if
    the log lacks a unit.
    """
    graph = timer.graph
    reading = timer.reading(log)
    # The log says which of several forms is the fastest.
    reading.compile_units(progress)
    reading.recall_units()
    stages = RecordedCost(log.measurements, reading.stage_key)
    unknown = [
        op.name
        for unit, op in enumerate(graph.operators)
        if math.isinf(stages.stage_latency(graph, Stage(Strategy.CONCURRENT, ((unit,),))))
    ]
    if unknown:
        raise LogError(
            f"the log {log.path} has no measurement of {len(unknown)} of the {len(graph)} "
            f"units, {unknown[0]!r} is the first: measure the model with --cost measured"
        )

    def completed(schedule: Schedule) -> Schedule:
        schedule = reading.timed(schedule)
        return timer.forms.named(schedule) if choose_forms else schedule

    rtasks = MeasuredRTasks(reading) if places_tiles else None
    return Costs(str(log.path), log.header.device, stages, rtasks=rtasks, completed=completed)


class _StageMeasuring:
    """Implements :class:`tvm_ios.costs.costs.StageMeasuring` with a timer."""

    def __init__(self, timer: StageTimer) -> None:
        self._timer = timer
        self._bounds: ComposedCost | None = None

    def bounds(self, progress: Progress) -> ComposedCost:
        if self._bounds is None:
            timer = self._timer

            def require_time() -> None:
                if time.perf_counter() > timer.until:
                    raise OutOfTimeError(_LATE)

            def in_time(what: str, done: int, total: int) -> None:
                progress(what, done, total)
                require_time()

            require_time()
            timer.compile_units(in_time)
            timer.measure_units(in_time)
            self._bounds = ComposedCost(
                timer.unit_latencies,
                timer.unit_key,
                timer.lanes,
                rkernels=timer.rkernels,
                placed=None if timer.kernels.fuser is None else partial(placed_unit, timer),
                can_co_schedule=partial(can_co_schedule, timer),
            )
        return self._bounds

    def stage_key(self, graph: OpGraph, stage: Stage) -> str:
        return self._timer.stage_key(graph, stage)

    def latencies(self, graph: OpGraph, stages: Iterable[Stage]) -> Iterator[float]:
        return self._timer.stage_latencies(stages)
