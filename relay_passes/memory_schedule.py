"""The pass that reorders a module for the least peak memory."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import tvm

from relay_passes.dialect import Dialect, dialect_of
from relay_passes.ios_schedule import let_pass
from relay_passes.pipeline import in_scheduled_form, with_schedule
from relay_passes.reordering import Reordering
from relay_passes.shown_pass import module_pass
from runtime_ext.ir_form import attached_schedule
from tvm_ios.errors import UserError
from tvm_ios.memory.arena import plan_order
from tvm_ios.memory.fitting import require_fit
from tvm_ios.memory.footprint import Counting
from tvm_ios.memory.problem import memory_problem
from tvm_ios.memory.schedulers import MEMORY_SCHEDULERS
from tvm_ios.memory.stage_order import order_stages, stage_problem


@module_pass
class MemorySchedule:
    """Put the operators of ``main`` into the order of least peak memory.

    The result computes the same. If ``IOSSchedule`` has scheduled the module, whole stages are
    reordered, and the executable needs a smaller arena. Any other module is canonicalised first, as
    by :func:`relay_passes.pipeline.prepare`. Of a Relax module the bindings are reordered, for
    TVM's own build, unless their order is as good already. A Relay module is scheduled with one
    unit per stage, because only ``let`` keeps an order there.

    Parameters
    ----------
    budget
        Limit in bytes of one block of memory that holds all tensors: for a scheduled module those
        between its units, else inputs and outputs too. None for no limit.
    scheduler
        One of :data:`tvm_ios.memory.schedulers.MEMORY_SCHEDULERS`.
    counting
        Rules of which tensors share memory, for a module without a schedule.
    time_limit
        Seconds of the search.

    Raises
    ------
    MemoryBudgetError
        When it runs, if the order that was found does not fit; one sentence says by how much.
    """

    def __init__(
        self,
        budget: int | None = None,
        *,
        scheduler: str = "optimal",
        counting: Counting | None = None,
        time_limit: float = 30.0,
    ) -> None:
        if scheduler not in MEMORY_SCHEDULERS:
            raise UserError(
                f"{scheduler!r} is no memory scheduler: use {', '.join(MEMORY_SCHEDULERS)}"
            )
        if budget is not None and budget < 1:
            raise UserError(f"no tensors fit into a memory budget of {budget} bytes")
        if not time_limit > 0:
            raise UserError(f"a search of {time_limit} s finds nothing: give it some time")
        self.budget = budget
        self.scheduler = scheduler
        self.counting = counting or Counting()
        self.time_limit = time_limit

    def transform_module(self, mod: tvm.IRModule, ctx: Any) -> tvm.IRModule:
        """Return the reordered module; called by :class:`tvm.transform.Pass`."""
        try:
            dialect = dialect_of(mod)
            attached = attached_schedule(mod)
            if attached is not None and in_scheduled_form(mod):
                return self._reorder_stages(mod, attached, dialect)
            return self._reorder_operators(dialect.operators_of(dialect.canonicalise(mod)))
        except UserError as error:
            let_pass(type(error))
            raise

    def _reorder_operators(self, movable: Reordering) -> tvm.IRModule:
        problem = memory_problem(movable.graph, self.counting)
        best = MEMORY_SCHEDULERS[self.scheduler](problem, self.time_limit)
        order = best.order
        if problem.footprints(movable.present).peak <= best.peak:
            order = movable.present
        require_fit("main", plan_order(problem, order), best.bound, self.budget)
        return movable.apply(order)

    def _reorder_stages(
        self, module: tvm.IRModule, attached: Mapping[str, Any], dialect: Dialect
    ) -> tvm.IRModule:
        graph, stages = dialect.stages_of(module)
        best = order_stages(graph, stages, self.scheduler, self.time_limit)
        problem, place = stage_problem(graph, stages)
        number = {where: operator for operator, where in enumerate(place)}
        planned = plan_order(problem, [number[where] for where in best.order])
        require_fit("main", planned, best.bound, self.budget)
        if best.order == tuple(range(len(stages))):
            return module
        moved = dialect.with_stages(module, best.order)
        return with_schedule(moved, _reordered(attached, best.order))


def _reordered(attached: Mapping[str, Any], order: Sequence[int]) -> dict[str, Any]:
    """Return the JSON data of a schedule with its stages in another order."""
    new = {old: place for place, old in enumerate(order)}
    schedule = dict(attached)
    for key in ("stages", "latencies"):
        if schedule[key]:
            schedule[key] = [schedule[key][old] for old in order]
    if "placements" in schedule:
        schedule["placements"] = [[new[stage], shares] for stage, shares in schedule["placements"]]
    return schedule
