"""A prepared module whose stages are measured on a device, and searches by those measurements."""

from __future__ import annotations

import hashlib
import logging
from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Generic, Protocol, TypeVar

import tvm

from relay_passes.dialect import DialectError
from relay_passes.prepared import Prepared
from relay_passes.search_options import SearchOptions
from runtime_ext.backend import Backend
from runtime_ext.execution.built_model import BuiltModel
from runtime_ext.isa.isa import BYTES
from tvm_ios.costs.analytic import AnalyticCost
from tvm_ios.costs.costs import ProgramCosts
from tvm_ios.costs.log import MeasurementLog, ReadOnlyLog
from tvm_ios.costs.log_lines import LogError, LogHeader, read_header
from tvm_ios.costs.named import costs_named, described_costs
from tvm_ios.measuring.chosen_forms import pieces_of_forms
from tvm_ios.measuring.measured_costs import measured_costs, recorded_costs
from tvm_ios.measuring.measured_units import MeasuredUnits
from tvm_ios.measuring.stage_timer import StageTimer
from tvm_ios.policies.policy import Problem
from tvm_ios.program.program_builder import LoweringError
from tvm_ios.progress import Progress, Steps, silent
from tvm_ios.schedule.schedule import Schedule, ScheduleError
from tvm_ios.search import Search

if TYPE_CHECKING:
    from runtime_ext.tuning_log.use import LogUse
    from tvm_ios.program.program import Part

_LOGGER = logging.getLogger(__name__)


class TargetUnits(Protocol):
    """The units of a module compiled for a target; each dialect implements it."""

    @property
    def prepared(self) -> Prepared:
        """The module in the form to which schedules are applied."""
        ...

    @property
    def options(self) -> SearchOptions:
        """The options of the search."""
        ...

    @property
    def backend(self) -> Backend[Any]:
        """The compiler of units, the device that times them, and the executor of programs."""
        ...

    @property
    def parts(self) -> Mapping[int, Part]:
        """Tensors that are views of parts of other tensors, by number."""
        ...

    @property
    def choose_forms(self) -> bool:
        """Whether units may have several kernels, of which the fastest measured one is used."""
        ...

    def source(self, units: tuple[int, ...]) -> Any:
        """Return the function of a unit, or of merged units, as the compiler takes it."""
        ...

    def build(self, schedule: Schedule, progress: Steps | None = None) -> BuiltModel:
        """Build the program of a schedule; ``progress`` gets the kernels done and in all."""
        ...

    def log_use(self) -> LogUse | None:
        """Count the kernels that the tuning log has, uses and lacks; None without a log."""
        ...


UnitsT = TypeVar("UnitsT", bound=TargetUnits)


class MeasuredModule(Generic[UnitsT]):
    """A module whose units are compiled for a target and timed on a device.

    ``search`` finds schedules by measured costs, and its policies share measurements; ``timer``
    makes the measurements. ``progress`` is called with (what, done, total).
    """

    def __init__(self, units: UnitsT, progress: Progress | None = None) -> None:
        self.units = units
        self.options = options = units.options
        self.prepared = units.prepared
        self.graph = units.prepared.units
        self._progress = progress or silent
        backend = units.backend
        log = measurement_log(backend, options)
        self._header = log.header
        if options.device is not None and options.device.timing.exact:
            log.reuse()
        self.timer = StageTimer(
            MeasuredUnits(
                self.graph,
                units.source,
                backend.compiler,
                backend.device,
                log,
                units.parts,
            )
        )
        operators = units.prepared.outliner.extraction.graph
        self.problem = Problem.of(self.graph, options.limits.max_block, operators)
        costs = measured_costs(
            self.timer,
            self._progress,
            choose_forms=units.choose_forms,
            places_tiles=units.prepared.dialect.places_tiles,
            chains=options.chains and units.prepared.dialect.places_tiles,
            programs=self._programs() if self._runs_here else None,
        )
        _LOGGER.info("measurements for %s are kept in %s", self._header.device, log.path)
        self.search = Search(self.problem, costs, options.limits, self._progress)

    def recorded(self, log: Path) -> Search:
        """Return a search by the measurements of a log alone; nothing is measured.

        If the options name a target, the log may come from any machine of that target (from a
        bundle, for example). Raise LogError if the file is no log, is for another device, target or
        TVM, or lacks some unit.
        """
        if not log.exists():
            raise LogError(f"there is no measurement log {log}")
        header, recorded_header = self._header, read_header(log)
        if self.options.target is not None:
            header = replace(header, device=recorded_header.device)
        costs = recorded_costs(
            self.timer,
            ReadOnlyLog(log, header),
            self._progress,
            choose_forms=self.units.choose_forms,
            places_tiles=self.prepared.dialect.places_tiles,
        )
        return Search(self.problem, costs, self.options.limits, self._progress)

    def described(self, name: str) -> Search:
        """Return a search by the named cost model; nothing is measured.

        For a GPU, rTasks are estimated from the compiled kernels, so programs can be built of the
        schedules. On a CPU that has instructions for products of bytes, quantised units use them.
        Raise errors as :func:`tvm_ios.costs.named.costs_named` does.
        """
        costs, device = costs_named(name), self.options.device
        if isinstance(costs.stages, AnalyticCost) and device is not None:
            edge = device.timing.edge
            engine = replace(costs.stages.engine, launch_overhead=edge, early_overhead=edge)
            costs = described_costs(costs.stages.device, engine)
        model = costs.stages if isinstance(costs.stages, AnalyticCost) else None
        if model is not None and self.timer.kernels.fuser is not None:
            # Not at the top: TVMs that have Relay lack modules that it imports.
            from runtime_ext.cuda.persistent.estimated_rtasks import EstimatedRTasks

            estimates = self.units.backend.compiler.estimates
            costs = replace(
                costs,
                rtasks=EstimatedRTasks(self.timer, estimates, model),
                completed=partial(self._with_unit_latencies, model),
            )
        elif self.units.backend.executor == "native":
            costs = replace(costs, completed=self._with_bytes)
        return Search(self.problem, costs, self.options.limits, self._progress)

    def build(self, schedule: Schedule, progress: Steps | None = None) -> BuiltModel:
        """Build the program of a schedule; ``progress`` gets the kernels done and in all."""
        return self.units.build(schedule, progress)

    def end_searches_at(self, until: float) -> None:
        """Stop searching and measuring at a time of :func:`time.perf_counter`."""
        self.search.until = self.timer.until = until

    def end_run(self) -> None:
        """Mark the log as complete, so that the next run measures again.

        After a search that ran out of time, or a lost fleet, the next run continues from this log.
        """
        fleet = self.options.fleet
        _LOGGER.info("%d stages were measured", self.timer.stages_measured)
        if not self.search.out_of_time and not (fleet is not None and fleet.exhausted):
            self.timer.end_run()

    @property
    def _runs_here(self) -> bool:
        """Whether whole programs run on the machine that builds them."""
        return self.units.backend.executor == "native" and self.options.fleet is None

    def _with_unit_latencies(self, model: AnalyticCost, schedule: Schedule) -> Schedule:
        """Return a schedule with estimated unit latencies, by which groups share the lanes."""
        lanes, units = self.options.lanes, range(len(self.graph))
        latencies = {unit: (model.unit_latency(self.graph, unit),) * lanes for unit in units}
        return replace(schedule, unit_latencies=latencies)

    def _with_bytes(self, schedule: Schedule) -> Schedule:
        """Return a schedule whose quantised units multiply bytes.

        Instructions for bytes multiply twice to seven times as many numbers a cycle as those for
        float32 (docs/arm.md), so a description need not say how many.
        """
        if not self.units.choose_forms:
            return schedule
        promising, names = self.units.backend.compiler.promising, dict(schedule.kernels)
        for units in pieces_of_forms(schedule):
            source = self.units.source(units)
            if source.integers and BYTES in promising(source):
                names |= dict.fromkeys(units, BYTES)
        return replace(schedule, kernels=names)

    def _programs(self) -> ProgramCosts:
        from runtime_ext.whole_programs import WholePrograms

        return WholePrograms(
            self.prepared.outliner.extraction.graph,
            self.graph,
            self.options.lanes,
            self._build_chosen,
            (DialectError, ScheduleError, LoweringError),
        )

    def _build_chosen(self, schedule: Schedule) -> BuiltModel:
        """Build a program with the faster of each unit's tuned and default kernels."""
        if self.units.choose_forms:
            self.timer.compile_units(self._progress)
        return self.build(schedule)


def measurement_log(backend: Backend[Any], options: SearchOptions) -> MeasurementLog:
    """Return the log file of a device, a target and this TVM; each combination has its own."""
    header = LogHeader(backend.device.name, str(backend.compiler.target), tvm.__version__)
    digest = hashlib.sha256(repr(header).encode()).hexdigest()[:16]
    return MeasurementLog(options.cache / "logs" / f"{digest}.jsonl", header)


def measured_module(
    prepared: Prepared, options: SearchOptions, progress: Progress | None = None
) -> MeasuredModule[Any]:
    """Return a prepared module of either dialect as one that can be measured."""
    return MeasuredModule(prepared.dialect.target_units(prepared, options), progress)
