"""The pass: find an inter-operator schedule and write it into the module."""

from __future__ import annotations

import importlib.util
from dataclasses import replace
from typing import Any

import tvm

from relay_passes.measured_module import measured_module
from relay_passes.pipeline import apply_schedule, for_target, prepare, schedule_of
from relay_passes.prepared import Prepared
from relay_passes.search_options import SearchOptions
from tvm_ios.costs.costs import NO_COSTS, Costs, costs_of_model
from tvm_ios.costs.model import CostModel
from tvm_ios.costs.named import MEASURED, costs_named
from tvm_ios.errors import UserError
from tvm_ios.graph.units import UnitRule
from tvm_ios.policies.policy import Policy, Problem
from tvm_ios.policies.registry import policy_named
from tvm_ios.progress import Progress, silent
from tvm_ios.schedule.schedule import Schedule
from tvm_ios.search import search


@tvm.transform.module_pass(opt_level=0, name="IOSSchedule")
class IOSSchedule:
    """Schedule the operators of ``main`` and outline its units.

    The result is a valid Relax module that computes the same: each unit is a private function
    with the attributes ``ios.unit``, ``ios.stage`` and ``ios.group``, and ``ios.kernel`` where the
    schedule names a kernel; ``main`` calls them in schedule order, merged convolutions stand in
    the IR, and the module attribute ``ios.schedule`` holds the schedule. A module that carries a
    schedule is returned as it is.

    Parameters
    ----------
    policy
        One of :func:`tvm_ios.policies.registry.policy_names`, or one of your own.
    cost
        ``"measured"`` (stages are measured on this machine), one of
        :func:`tvm_ios.costs.named.cost_names` (``"v100"``), or a cost model of your own.
    options
        The machine, the tuned kernels, and how far to search.
    unit_rule
        How operators form units, instead of the default rule.
    schedule
        Apply this schedule instead of searching.
    memory_budget
        Bytes that the tensors between units may take at any time, of policies that search over
        stages (``ios-...``).
    progress
        Called with (what, done, total) while it measures.
    """

    def __init__(
        self,
        policy: str | Policy = "ios-both",
        cost: str | CostModel | Costs = MEASURED,
        *,
        options: SearchOptions | None = None,
        unit_rule: UnitRule | None = None,
        schedule: Schedule | None = None,
        memory_budget: int | None = None,
        progress: Progress | None = None,
    ) -> None:
        self.policy = policy
        self.cost = cost
        self.options = options or SearchOptions()
        self.unit_rule = unit_rule
        self.schedule = schedule
        self.memory_budget = memory_budget
        self.progress = progress

    def transform_module(self, mod: tvm.IRModule, ctx: Any) -> tvm.IRModule:
        """Schedule; see :class:`tvm.transform.Pass`."""
        if schedule_of(mod) is not None:
            return mod
        try:
            prepared = for_target(prepare(mod, rule=self.unit_rule), self.options)
            schedule = self.schedule or self._search(prepared)
            return apply_schedule(prepared, schedule)
        except UserError as error:
            let_pass(type(error))
            raise

    def _search(self, prepared: Prepared) -> Schedule:
        policy = policy_named(self.policy) if isinstance(self.policy, str) else self.policy
        options = self.options
        if policy.needs and self.cost == MEASURED:
            module = measured_module(prepared, options, self.progress)
            result = module.search.find(policy, self.memory_budget)
            module.end_run()
            return result.schedule
        limits = options.limits
        if self.memory_budget is not None:
            limits = replace(limits, memory_budget=self.memory_budget)
        problem = Problem.of(prepared.units, limits.max_block)
        costs = self._costs() if policy.needs else NO_COSTS
        return search(problem, policy, costs, limits, self.progress or silent).schedule

    def _costs(self) -> Costs:
        if isinstance(self.cost, str):
            return costs_named(self.cost)
        return self.cost if isinstance(self.cost, Costs) else costs_of_model(self.cost)


def let_pass(kind: type[UserError]) -> None:
    """Keep TVM's pass manager from making a RuntimeError of such an error, as newer ones do."""
    if importlib.util.find_spec("tvm_ffi"):
        import tvm_ffi

        tvm_ffi.register_error(kind)
