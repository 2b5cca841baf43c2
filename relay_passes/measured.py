"""Searching with measured costs: compile units, time them, measure what may matter."""

from __future__ import annotations

import hashlib
import math
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import tvm

from relay_passes.prepare import Prepared
from relay_passes.rprogram_profile import RProgramProfile
from runtime_ext.in_place import arrange
from runtime_ext.kernels.library import KernelCompiler, UnitSource
from runtime_ext.machine import available_lanes, cache_folder, device_name, host_target
from runtime_ext.measure import Progress, StageTimer
from runtime_ext.scheduled_module import reject_tir
from tvm_ios.blocks import cut_blocks
from tvm_ios.cost.composed import ComposedCost
from tvm_ios.cost.log import LogError, LogHeader, MeasurementLog, ReadOnlyLog, read_header
from tvm_ios.cost.recorded import RecordedCost
from tvm_ios.merge_rule import mergeable
from tvm_ios.schedule import Schedule, Stage, Strategy
from tvm_ios.search.baselines import baseline_schedule
from tvm_ios.search.endings import Pruning
from tvm_ios.search.lazy import Budget, LazyStatistics, lazy_search
from tvm_ios.search.memory_front import FrontPoint, descend
from tvm_ios.search.network import SearchStatistics, search_graph
from tvm_ios.search.policies import strategies_of
from tvm_ios.search.rammer import (
    RAMMER,
    Profile,
    rammer_schedule,
    wavefront_programs,
    with_placements,
)
from tvm_ios.search.rprogram import simulate


@dataclass(frozen=True)
class MeasuringOptions:
    """How to measure.

    Attributes
    ----------
    lanes
        Threads; all that the process may use by default.
    target
        TVM target; this machine by default.
    database
        A MetaSchedule database (folder) of tuned kernels.
    cache
        Folder of compiled kernels and measurement logs.
    pruning, max_block
        Limits of the search.
    budget
        When measuring ends.
    """

    lanes: int = field(default_factory=available_lanes)
    target: Any = None
    database: Path | None = None
    cache: Path = field(default_factory=cache_folder)
    pruning: Pruning = field(default_factory=lambda: Pruning(3, 8))
    max_block: int = 40
    budget: Budget = field(default_factory=lambda: Budget(max_measurements=400))

    @property
    def resolved_target(self) -> Any:
        """The target, this machine's where none is given."""
        return self.target or host_target(self.lanes)


class MeasuredSearch:
    """Finds schedules of one prepared module on this machine; policies share measurements."""

    def __init__(
        self, prepared: Prepared, options: MeasuringOptions, progress: Progress | None = None
    ) -> None:
        self.prepared = prepared
        self.options = options
        self.progress = progress
        self.blocks = cut_blocks(prepared.units, options.max_block)
        self.device = device_name(options.lanes)
        target = options.resolved_target
        self.compiler = KernelCompiler(
            target, options.lanes, options.cache / "kernels", database=options.database
        )
        functions = [prepared.outliner.unit(u).function for u in range(len(prepared.units))]
        self._memory = arrange(prepared.units, functions)
        self.timer = StageTimer(
            prepared.units,
            self.source,
            self.compiler,
            options.lanes,
            self._log(target),
            self._memory.parts,
        )
        self._optimistic: ComposedCost | None = None
        self._compiled = False

    def schedule(
        self, policy: str, memory_budget: int | None = None
    ) -> tuple[Schedule, LazyStatistics | None]:
        """The schedule of a policy, and for those that search what the search took.

        Parameters
        ----------
        policy
            Any.
        memory_budget
            Of those that search over stages; others do not look at it.

        Raises
        ------
        SearchError
            If the policy is unknown.
        MemoryBudgetError
            If no schedule fits into the memory budget.
        """
        graph, options = self.prepared.units, self.options
        if options.database is not None:
            # Whatever is built then has the faster of the log's kernels and the default ones.
            self._compile_units()
        if policy == RAMMER:
            return self._rammer()
        if (made := baseline_schedule(policy, graph, device=self.device)) is not None:
            if self.compiler.log is not None:
                # Which form of a unit is the faster one is known when both were timed.
                self._optimistic_cost()
            return made, None

        def report(done: int, waiting: int) -> None:
            if self.progress is not None:
                self.progress(f"{policy}: measuring stages", done, done + waiting)

        strategies = strategies_of(policy)
        optimistic = self._optimistic_cost()
        if Strategy.CO_SCHEDULE in strategies:
            self.timer.measure_rkernels(self.progress)
        made, took = lazy_search(
            graph,
            self.blocks,
            optimistic,
            lambda stage: self.timer.stage_latency(graph, stage),
            self.timer.stage_key,
            policy,
            options.pruning,
            mergeable,
            budget=options.budget,
            progress=report,
            device=self.device,
            batch=graph.batch,
            memory_budget=memory_budget,
        )
        return with_placements(made, self.timer.rprogram, self.timer.rkernels), took

    def pareto(self, policy: str) -> tuple[FrontPoint, ...]:
        """The trades of latency for memory among measured stages, the fastest first.

        Raises
        ------
        SearchError
            If the policy is none that searches over stages.
        """
        strategies_of(policy)
        graph = self.prepared.units
        everything = sum(tensor.nbytes for tensor in graph.tensors)
        return descend(graph, lambda budget: self.schedule(policy, budget)[0], everything)

    def _rammer(self) -> tuple[Schedule, LazyStatistics]:
        def report(measured: int) -> None:
            if self.progress is not None:
                self.progress(f"{RAMMER}: measuring rPrograms", measured, measured)

        self._compile_units()
        self.timer.measure_rkernels(self.progress)
        profile = RProgramProfile(self.timer.rprogram_latency, self.options.budget, report)
        made = self._wavefronts(self.timer, profile)
        return made, LazyStatistics(
            seconds=profile.seconds,
            states=0,
            transitions=0,
            candidates=profile.measured,
            stages_measured=profile.measured,
            rounds=1,
            complete=profile.complete,
            lower_bound=0.0,
            blocks=1,
            blocks_searched=1,
        )

    def _wavefronts(self, timer: StageTimer, profile: Profile) -> Schedule:
        graph = self.prepared.units
        programs = wavefront_programs(graph, timer.rkernels, timer.lanes, profile)
        seconds = profile(programs)
        return rammer_schedule(graph, programs, seconds, timer.rkernels, device=self.device)

    def sequential_latency(self) -> float:
        """Seconds of all units one after another, each alone on all lanes."""
        graph = self.prepared.units
        self._compile_units()
        stages = [Stage(Strategy.CONCURRENT, ((unit,),)) for unit in range(len(graph))]
        return sum(self.timer.stage_latency(graph, stage) for stage in stages)

    def measured_baseline(self, policy: str) -> Schedule | None:
        """A schedule that needs no search, with measured latencies; None for other policies."""
        graph = self.prepared.units
        if baseline_schedule(policy, graph) is None:
            return None
        # Groups share the lanes by the latencies of their units.
        self._optimistic_cost()
        return baseline_schedule(policy, graph, self.timer, device=self.device)

    def recorded(
        self, policy: str, log: Path, memory_budget: int | None = None
    ) -> tuple[Schedule, SearchStatistics | None]:
        """The best schedule of stages that a log holds; no stage is measured.

        Raises
        ------
        LogError
            If the file is no log, or one for another device, target or TVM, or does not hold every
            unit, or of policies that co-schedule the times of their rTasks.
        """
        graph, options = self.prepared.units, self.options
        if not log.exists():
            raise LogError(f"there is no measurement log {log}")
        read_header(log)
        known = ReadOnlyLog(log, self._header(self.compiler.target))
        self._compile_units()
        timer = self.timer.reading(known)
        cost = RecordedCost(known.samples, timer.stage_key)
        unknown = [
            op.name
            for unit, op in enumerate(graph.operators)
            if math.isinf(cost.stage_latency(graph, Stage(Strategy.CONCURRENT, ((unit,),))))
        ]
        if unknown:
            raise LogError(
                f"the log {log} has no measurement of {len(unknown)} of the {len(graph)} units, "
                f"{unknown[0]!r} is the first: measure the model with --cost measured"
            )
        if (made := baseline_schedule(policy, graph, cost, device=self.device)) is not None:
            return made, None
        if policy == RAMMER:
            # A log has hardly ever the rPrograms that are compared, but the times of their rTasks.
            return self._wavefronts(timer, simulate), None
        made, took = search_graph(
            graph,
            self.blocks,
            cost,
            policy,
            options.pruning,
            mergeable,
            device=self.device,
            batch=graph.batch,
            memory_budget=memory_budget,
        )
        return with_placements(made, timer.rprogram, timer.rkernels), took

    def source(self, units: tuple[int, ...]) -> UnitSource:
        """The function and layouts of a unit, or of merged ones."""
        outliner = self.prepared.outliner
        made = outliner.unit(units[0]) if len(units) == 1 else outliner.merged(units)
        reject_tir(made.function, made.name)
        return self._memory.source(made.function, made.data, made.outputs)

    def _compile_units(self) -> None:
        if not self._compiled:
            self.timer.compile_units(self.progress)
            self._compiled = True

    def _optimistic_cost(self) -> ComposedCost:
        if self._optimistic is None:
            self._compile_units()
            self.timer.measure_units(self.progress)
            self._optimistic = ComposedCost(
                self.timer.unit_latencies,
                self.timer.unit_key,
                self.options.lanes,
                rkernels=self.timer.rkernels,
            )
        return self._optimistic

    def _log(self, target: Any) -> MeasurementLog:
        """One log file for each device, target and TVM, so that none is ever refused."""
        header = self._header(target)
        digest = hashlib.sha256(repr(header).encode()).hexdigest()[:16]
        return MeasurementLog(self.options.cache / "logs" / f"{digest}.jsonl", header)

    def _header(self, target: Any) -> LogHeader:
        return LogHeader(self.device, str(target), tvm.__version__)
