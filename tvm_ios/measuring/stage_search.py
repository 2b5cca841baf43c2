"""Searching with measured costs: time the units, then what may matter. Needs no TVM."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial

from tvm_ios.costs.composed import ComposedCost
from tvm_ios.costs.log import LogError, MeasurementLog
from tvm_ios.costs.recorded import RecordedCost
from tvm_ios.graph.merge_rule import mergeable as any_mergeable
from tvm_ios.ios.endings import Pruning
from tvm_ios.ios.lazy import Budget, LazyStatistics, lazy_search
from tvm_ios.ios.memory_front import FrontPoint, descend
from tvm_ios.ios.network import SearchStatistics, search_graph
from tvm_ios.ios.strategies import Mergeable, strategies_of
from tvm_ios.measuring.co_scheduling import can_co_schedule, can_run, execution_units, placed_unit
from tvm_ios.measuring.stage_fuser import UnfusedError
from tvm_ios.measuring.stage_timer import StageTimer
from tvm_ios.policies.baselines import baseline_schedule
from tvm_ios.progress import Progress
from tvm_ios.rammer.rprogram import simulate
from tvm_ios.rammer.rprogram_profile import RProgramProfile
from tvm_ios.rammer.wavefront import (
    RAMMER,
    Profile,
    rammer_schedule,
    wavefront_programs,
    with_placements,
)
from tvm_ios.schedule.schedule import Schedule, Stage, Strategy


@dataclass(frozen=True, kw_only=True)
class SearchLimits:
    """How far to search.

    Attributes
    ----------
    pruning, max_block
        Limits of the search.
    budget
        When measuring ends.
    """

    pruning: Pruning = field(default_factory=lambda: Pruning(3, 8))
    max_block: int = 40
    budget: Budget = field(default_factory=lambda: Budget(max_measurements=400))


class StageSearch:
    """Finds schedules of one graph of units on one device; policies share measurements.

    Parameters
    ----------
    timer
        Of the graph, on the device.
    blocks
        Bit sets of units in the order of execution.
    limits
        How far to search.
    progress
        Called with (what, done, total).
    choose_forms
        Units may have several forms: the faster ones are found out before any schedule is made.
    mergeable
        Which units the timer has merged code of.
    """

    def __init__(
        self,
        timer: StageTimer,
        blocks: Sequence[int],
        limits: SearchLimits,
        progress: Progress | None = None,
        *,
        choose_forms: bool = False,
        mergeable: Mergeable = any_mergeable,
    ) -> None:
        self.graph = timer.graph
        self.timer = timer
        self.blocks = blocks
        self.limits = limits
        self.progress = progress
        self.device = timer.device.name
        self._choose_forms = choose_forms
        self._mergeable = mergeable
        self._optimistic: ComposedCost | None = None
        self._compiled = False
        self._out_of_time = False

    def schedule(
        self, policy: str, memory_budget: int | None = None
    ) -> tuple[Schedule, LazyStatistics | None]:
        """The schedule of a policy, and for those that search what the search took.

        Parameters
        ----------
        policy
            Any.
        memory_budget
            Bytes, of policies that search over stages; others do not look at it.

        Raises
        ------
        SearchError
            If the policy is unknown.
        MemoryBudgetError
            If no schedule fits into the memory budget.
        """
        if self._choose_forms:
            # Whatever is built then has the faster of the log's kernels and the default ones.
            self._compile_units()
        if policy == RAMMER:
            return self._rammer()
        if (made := baseline_schedule(policy, self.graph, device=self.device)) is not None:
            if self._choose_forms:
                # Which form of a unit is the faster one is known when both were timed.
                self._optimistic_cost()
            return self._with_libraries(made), None

        def report(done: int, waiting: int) -> None:
            if self.progress is not None:
                self.progress(f"{policy}: measuring stages", done, done + waiting)

        strategies = strategies_of(policy)
        optimistic = self._optimistic_cost()
        if Strategy.CO_SCHEDULE in strategies:
            self.timer.rkernels.measure(self.progress)
        made, took = lazy_search(
            self.graph,
            self.blocks,
            optimistic,
            lambda stage: self.timer.stage_latency(self.graph, stage),
            self.timer.stage_key,
            policy,
            self.limits.pruning,
            self._mergeable,
            budget=self.limits.budget,
            progress=report,
            device=self.device,
            memory_budget=memory_budget,
        )
        self._note(took)
        made = with_placements(made, self.timer.rprogram, self.timer.rkernels)
        return self._with_libraries(self.timer.timed(made)), took

    def _with_libraries(self, schedule: Schedule) -> Schedule:
        return self.timer.forms.with_libraries(schedule) if self._choose_forms else schedule

    def end_run(self) -> None:
        """Let the next run measure again, unless one of the searches ran out of time.

        The next run then goes on from what is known.
        """
        if not self._out_of_time:
            self.timer.end_run()

    def _note(self, took: LazyStatistics) -> None:
        limited = self.limits.budget.time_limit is not None
        self._out_of_time |= limited and not took.complete

    def pareto(self, policy: str) -> tuple[FrontPoint, ...]:
        """The trades of latency for memory among measured stages, the fastest first.

        Raises
        ------
        SearchError
            If the policy is none that searches over stages.
        """
        strategies_of(policy)
        everything = sum(tensor.nbytes for tensor in self.graph.tensors)
        return descend(self.graph, lambda most: self.schedule(policy, most)[0], everything)

    def sequential_latency(self) -> float:
        """Seconds of all units one after another, each alone on all lanes."""
        self._compile_units()
        stages = [Stage(Strategy.CONCURRENT, ((unit,),)) for unit in range(len(self.graph))]
        return sum(self.timer.stage_latency(self.graph, stage) for stage in stages)

    def measured_baseline(self, policy: str) -> Schedule | None:
        """A schedule that needs no search, with measured latencies; None for other policies."""
        if baseline_schedule(policy, self.graph) is None:
            return None
        # Groups share the lanes by the latencies of their units.
        self._optimistic_cost()
        made = baseline_schedule(policy, self.graph, self.timer, device=self.device)
        assert made is not None
        return self._with_libraries(made)

    def recorded_schedule(
        self, policy: str, known: MeasurementLog, memory_budget: int | None = None
    ) -> tuple[Schedule, SearchStatistics | None]:
        """The best schedule of stages that a log holds; no stage is measured.

        Raises
        ------
        LogError
            If the log does not hold every unit, or of policies that co-schedule the times of
            their rTasks.
        """
        graph = self.graph
        self._compile_units()
        timer = self.timer.reading(known)
        timer.recall_units()
        cost = RecordedCost(known.measurements, timer.stage_key)
        unknown = [
            op.name
            for unit, op in enumerate(graph.operators)
            if math.isinf(cost.stage_latency(graph, Stage(Strategy.CONCURRENT, ((unit,),))))
        ]
        if unknown:
            raise LogError(
                f"the log {known.path} has no measurement of {len(unknown)} of the {len(graph)} "
                f"units, {unknown[0]!r} is the first: measure the model with --cost measured"
            )
        if (made := baseline_schedule(policy, graph, cost, device=self.device)) is not None:
            return self._with_libraries(timer.timed(made)), None
        if policy == RAMMER:
            # A log has hardly ever the rPrograms that are compared, but the times of their rTasks.
            return self._wavefronts(timer, simulate), None
        made, took = search_graph(
            graph,
            self.blocks,
            cost,
            policy,
            self.limits.pruning,
            self._mergeable,
            device=self.device,
            memory_budget=memory_budget,
        )
        made = timer.timed(with_placements(made, timer.rprogram, timer.rkernels))
        return self._with_libraries(made), took

    def _rammer(self) -> tuple[Schedule, LazyStatistics]:
        def report(measured: int) -> None:
            if self.progress is not None:
                self.progress(f"{RAMMER}: measuring rPrograms", measured, measured)

        fuser = self.timer.kernels.fuser
        if fuser is not None and not fuser.compiles:
            raise UnfusedError(
                f"the policy {RAMMER} compiles kernels as it goes and there is no CUDA compiler "
                "here: install nvidia-cuda-nvrtc"
            )
        self._compile_units()
        self.timer.rkernels.measure(self.progress)
        timer = self.timer
        profile = RProgramProfile(
            timer.rprogram_latency, self.limits.budget, report, partial(can_run, timer)
        )
        made = self._wavefronts(self.timer, profile)
        took = LazyStatistics(
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
        self._note(took)
        return made, took

    def _wavefronts(self, timer: StageTimer, profile: Profile) -> Schedule:
        programs = wavefront_programs(self.graph, timer.rkernels, execution_units(timer), profile)
        seconds = profile(programs)
        return rammer_schedule(self.graph, programs, seconds, timer.rkernels, device=self.device)

    def _compile_units(self) -> None:
        if not self._compiled:
            self.timer.compile_units(self.progress)
            self._compiled = True

    def _optimistic_cost(self) -> ComposedCost:
        if self._optimistic is None:
            self._compile_units()
            self.timer.measure_units(self.progress)
            timer = self.timer
            self._optimistic = ComposedCost(
                timer.unit_latencies,
                timer.unit_key,
                timer.lanes,
                rkernels=timer.rkernels,
                placed=None if timer.kernels.fuser is None else partial(placed_unit, timer),
                can_co_schedule=partial(can_co_schedule, timer),
            )
        return self._optimistic
