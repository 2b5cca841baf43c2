"""The pass that finds an inter-operator schedule and writes it into the module."""

from __future__ import annotations

import importlib.util
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import tvm

from relay_passes.measured_module import measured_module
from relay_passes.pipeline import Pipeline, for_target, in_scheduled_form
from relay_passes.prepared import Planned, Prepared
from relay_passes.search_options import SearchOptions, require_dump_folder
from relay_passes.shown_pass import module_pass
from runtime_ext.ir_form import attached_schedule
from tvm_ios.costs.costs import NO_COSTS, Costs, costs_of_model
from tvm_ios.costs.model import CostModel
from tvm_ios.costs.named import MEASURED, cost_names, costs_named
from tvm_ios.errors import UserError
from tvm_ios.graph.units import UnitRule
from tvm_ios.policies.policy import Policy, Problem
from tvm_ios.policies.registry import policy_named
from tvm_ios.program.bfloat16 import require_precision
from tvm_ios.progress import Progress, silent
from tvm_ios.schedule.published.imported import PublishedFile, schedule_of_file, schedule_of_text
from tvm_ios.schedule.schedule import UNROLLED_FROM, Schedule, ScheduleError
from tvm_ios.search import search


@module_pass
class IOSSchedule:
    """Schedule the operators of ``main`` and outline its units.

    The result is a valid Relax module that computes the same. Each unit is a private function
    with the attributes ``ios.unit``, ``ios.stage`` and ``ios.group``, and ``ios.kernel`` where the
    schedule names a kernel. ``main`` calls them in schedule order, and merged convolutions stand in
    the IR. The module attribute ``ios.schedule`` is a line about the schedule, which
    :func:`relay_passes.pipeline.schedule_of` reads. (In Relay units are function literals, and
    the attributes are those of their calls.)

    A module that this pass has scheduled is returned unchanged. It is scheduled anew if the policy,
    cost or schedule is another one, or if something has changed ``main`` since.

    Parameters
    ----------
    policy
        One of :func:`tvm_ios.policies.registry.policy_names`, or one of your own.
    cost
        ``"measured"`` (stages are measured on this machine), one of
        :func:`tvm_ios.costs.named.cost_names` (``"v100"``), or a cost model of your own.
    options
        The machine, the tuned kernels, and the limits of the search.
    unit_rule
        The rule that groups operators into units, instead of the default one.
    schedule
        Apply this schedule instead of searching: a schedule, its JSON, or the path of its file,
        which may be one of IOS's published implementation.
    memory_budget
        Bytes that the tensors between units may take at any time; for policies that search over
        stages (``ios-...``).
    progress
        Called with (what, done, total) while it measures.

    Raises
    ------
    UserError
        If a parameter cannot be used; when it runs, if the module cannot be scheduled.
    """

    def __init__(
        self,
        policy: str | Policy = "ios-both",
        cost: str | CostModel | Costs = MEASURED,
        *,
        options: SearchOptions | None = None,
        unit_rule: UnitRule | None = None,
        schedule: Schedule | str | Path | None = None,
        memory_budget: int | None = None,
        progress: Progress | None = None,
    ) -> None:
        self.policy = policy_named(policy) if isinstance(policy, str) else policy
        self.cost = cost
        self.costs = _costs(cost)
        self.options = options or SearchOptions()
        require_dump_folder(self.options.dump_ir)
        self.unit_rule = unit_rule
        self.schedule = _schedule(schedule)
        if memory_budget is not None and memory_budget < 1:
            raise UserError(f"no tensors fit into a memory budget of {memory_budget} bytes")
        self.memory_budget = memory_budget
        self.progress = progress

    def transform_module(self, mod: tvm.IRModule, ctx: Any) -> tvm.IRModule:
        """Return the scheduled module; called by :class:`tvm.transform.Pass`."""
        try:
            attached = attached_schedule(mod)
            present = None
            if attached is not None and in_scheduled_form(mod):
                present = Schedule.from_json(attached.get(UNROLLED_FROM, attached))
                if self._asks_for(present):
                    return mod
            pipeline = Pipeline(
                rule=self.unit_rule,
                plan=partial(self._plan, present=present),
                dump_ir=self.options.dump_ir,
            )
            return pipeline.run(mod)
        except UserError as error:
            let_pass(type(error))
            raise

    def _plan(self, prepared: Prepared, present: Schedule | None) -> Planned:
        """Return the module fitted to the target, with the schedule that is given or found."""
        if present is not None and present.fingerprint != prepared.units.fingerprint:
            raise ScheduleError(
                f"the schedule {present.policy!r} that the module carries changed its "
                "operators: run IOSSchedule() on the module from before it"
            )
        if self.schedule is None and self.policy.needs and self.costs is None:
            return self._measure(prepared)
        prepared = for_target(prepared, self.options)
        return Planned(prepared, self._given(prepared) or self._search(prepared))

    def _given(self, prepared: Prepared) -> Schedule | None:
        """Return the schedule that was given instead of a search, or None."""
        if isinstance(self.schedule, PublishedFile):
            return self.schedule.fitted(prepared.units).schedule
        if self.schedule is not None:
            names = self.schedule.kernels.values()
            require_precision(self.schedule.policy, names, self.options.precision)
        return self.schedule

    def _asks_for(self, present: Schedule) -> bool:
        """Return whether the module's schedule is, as far as can be told, the one asked for."""
        if isinstance(self.schedule, PublishedFile):
            return present.policy == self.schedule.policy
        if self.schedule is not None:
            return present in (self.schedule, self.schedule.of_stages_alone)
        if present.policy != self.policy.name:
            return False
        if not self.policy.needs:
            return True
        # A schedule by measured costs names the machine instead.
        return (
            present.device not in cost_names()
            if self.costs is None
            else (present.device == self.costs.device)
        )

    def _measure(self, prepared: Prepared) -> Planned:
        module = measured_module(prepared, self.options, self.progress)
        result = module.search.find(self.policy, self.memory_budget)
        module.end_run()
        return Planned(module.prepared, result.schedule)

    def _search(self, prepared: Prepared) -> Schedule:
        policy, limits = self.policy, self.options.limits
        if self.memory_budget is not None:
            limits = replace(limits, memory_budget=self.memory_budget)
        problem = Problem.of(prepared.units, limits.max_block)
        costs = self.costs if policy.needs and self.costs else NO_COSTS
        return search(problem, policy, costs, limits, self.progress or silent).schedule


def _costs(cost: str | CostModel | Costs) -> Costs | None:
    """Return the costs of a name or a model; None if stages are to be measured."""
    if isinstance(cost, str):
        return None if cost == MEASURED else costs_named(cost)
    return cost if isinstance(cost, Costs) else costs_of_model(cost)


def _schedule(schedule: Schedule | str | Path | None) -> Schedule | PublishedFile | None:
    """Read a schedule from JSON text or a file; return other values unchanged."""
    if isinstance(schedule, str) and schedule.lstrip().startswith("{"):
        return schedule_of_text(schedule)
    return schedule_of_file(schedule) if isinstance(schedule, str | Path) else schedule


def let_pass(kind: type[UserError]) -> None:
    """Register an error class with TVM's FFI, so that the pass manager raises it as it is.

    Newer TVMs raise a RuntimeError instead of an unregistered class.
    """
    if importlib.util.find_spec("tvm_ffi"):
        import tvm_ffi

        tvm_ffi.register_error(kind)
