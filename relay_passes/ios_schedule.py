"""The pass: find an inter-operator schedule and write it into the module."""

from __future__ import annotations

import importlib.util
from typing import Any

import tvm

from relay_passes.measuring_options import MeasuringOptions
from relay_passes.prepare import Prepared, apply_schedule, for_target, prepare, schedule_of
from tvm_ios.costs.analytic import AnalyticCost
from tvm_ios.costs.model import CostModel
from tvm_ios.devices.device import load_device
from tvm_ios.errors import SearchError, UserError
from tvm_ios.graph.blocks import cut_blocks
from tvm_ios.graph.merge_rule import mergeable
from tvm_ios.graph.units import UnitRule
from tvm_ios.ios.network import search_graph
from tvm_ios.ios.strategies import strategies_of
from tvm_ios.policies.baselines import baseline_schedule
from tvm_ios.progress import Progress
from tvm_ios.rammer.wavefront import RAMMER, simulated_schedule
from tvm_ios.schedule.schedule import Schedule


@tvm.transform.module_pass(opt_level=0, name="IOSSchedule")
class IOSSchedule:
    """Schedule the operators of ``main`` by IOS and outline its units.

    The result is a valid Relax module that computes the same: each unit is a private function
    with the attributes ``ios.unit``, ``ios.stage`` and ``ios.group``, and ``ios.kernel`` where the
    schedule names a kernel; ``main`` calls them in schedule order, merged convolutions stand in
    the IR, and the module attribute ``ios.schedule`` holds the schedule. A module that carries a
    schedule is returned as it is.

    Parameters
    ----------
    policy
        ``sequential``, ``greedy``, ``memory``, ``ios-merge``, ``ios-parallel``, ``ios-both``,
        ``rammer`` or ``ios-holistic``; with measured costs ``graphturbo`` or ``holistic`` too.
    cost
        ``"measured"`` (stages are measured on this machine), the name of a device description
        (``"v100"``), or a cost model of your own.
    options
        How to measure and how far to search: lanes, target, tuned kernels, pruning, budget.
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
        policy: str = "ios-both",
        cost: str | CostModel = "measured",
        *,
        options: MeasuringOptions | None = None,
        unit_rule: UnitRule | None = None,
        schedule: Schedule | None = None,
        memory_budget: int | None = None,
        progress: Progress | None = None,
    ) -> None:
        self.policy = policy
        self.cost = cost
        self.options = options or MeasuringOptions()
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
        graph, options = prepared.units, self.options
        if self.memory_budget is not None:
            strategies_of(self.policy)
        if (made := baseline_schedule(self.policy, graph)) is not None:
            return made
        if self.cost == "measured":
            search = prepared.dialect.measured_search()(prepared, options, self.progress)
            found = search.schedule(self.policy, self.memory_budget)[0]
            search.end_run()
            return found
        cost = AnalyticCost(load_device(self.cost)) if isinstance(self.cost, str) else self.cost
        if self.policy == RAMMER:
            if not isinstance(cost, AnalyticCost):
                raise SearchError(
                    f"the cost model {cost.name!r} does not know how long rTasks take: give the "
                    f"policy {RAMMER!r} measured costs or a device"
                )
            return simulated_schedule(graph, cost)
        blocks = cut_blocks(graph, options.max_block)
        found = search_graph(
            graph,
            blocks,
            cost,
            self.policy,
            options.pruning,
            mergeable,
            device=cost.name,
            memory_budget=self.memory_budget,
        )
        return found[0]


def let_pass(kind: type[UserError]) -> None:
    """Or TVM's pass manager would make a RuntimeError of it; older ones let everything pass."""
    if importlib.util.find_spec("tvm_ffi"):
        import tvm_ffi

        tvm_ffi.register_error(kind)
