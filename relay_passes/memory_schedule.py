"""The pass: reorder a module for the least peak memory."""

from __future__ import annotations

import json
from typing import Any

import tvm
import tvm_ffi
from tvm import relax

from relay_passes.prepare import schedule_of
from relay_passes.relax.bindings import bindings_of
from relay_passes.relax.canonicalise import canonicalise
from relay_passes.relax.extract import extract
from relay_passes.relax.reorder import reorder
from runtime_ext.scheduled_module import SCHEDULE, STAGE, read_scheduled_module
from tvm_ios.errors import UserError
from tvm_ios.memory.arena import plan_order
from tvm_ios.memory.fitting import require_fit
from tvm_ios.memory.footprint import Counting
from tvm_ios.memory.operators import with_biases
from tvm_ios.memory.problem import memory_problem
from tvm_ios.memory.schedulers import MEMORY_SCHEDULERS
from tvm_ios.memory.stage_order import order_stages, stage_problem


@tvm.transform.module_pass(opt_level=0, name="MemorySchedule")
class MemorySchedule:
    """Put the operators of ``main`` into the order of least peak memory.

    The result computes the same. A module that ``IOSSchedule`` has scheduled gets its stages
    reordered, whole: its executable then has the smaller arena. Any other module becomes canonical
    (as :func:`relay_passes.prepare.prepare` makes it) and gets its bindings reordered, for TVM's
    own build. A module that already is in an order as good is only made canonical.

    Parameters
    ----------
    budget
        Bytes that one block of memory may have which holds all tensors: for a scheduled module
        those between its units, else inputs and outputs too. None for no limit.
    scheduler
        One of :data:`tvm_ios.memory.schedulers.MEMORY_SCHEDULERS`.
    counting
        What shares memory, for a module without a schedule.
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
        self.budget = budget
        self.scheduler = scheduler
        self.counting = counting or Counting()
        self.time_limit = time_limit

    def transform_module(self, mod: tvm.IRModule, ctx: Any) -> tvm.IRModule:
        """Reorder; see :class:`tvm.transform.Pass`."""
        try:
            if schedule_of(mod) is not None:
                return self._reorder_stages(mod)
            return self._reorder_operators(canonicalise(mod))
        except UserError as error:
            # Or TVM's pass manager would make a RuntimeError of what it does not know.
            tvm_ffi.register_error(type(error))
            raise

    def _reorder_operators(self, module: tvm.IRModule) -> tvm.IRModule:
        extraction = extract(module)
        graph = with_biases(extraction.graph)
        problem = memory_problem(graph, self.counting)
        found = MEMORY_SCHEDULERS[self.scheduler](problem, self.time_limit)
        present = sorted(range(len(graph)), key=lambda op: max(graph.operators[op].members))
        order = found.order
        if problem.footprints(present).peak <= found.peak:
            order = tuple(present)
        require_fit("main", plan_order(problem, order), found.bound, self.budget)
        if order == tuple(present):
            return module
        return reorder(
            module,
            [
                extraction.bindings[member]
                for operator in order
                for member in graph.operators[operator].members
            ],
        )

    def _reorder_stages(self, module: tvm.IRModule) -> tvm.IRModule:
        read = read_scheduled_module(module)
        found = order_stages(read.graph, read.stages, self.scheduler, self.time_limit)
        problem, place = stage_problem(read.graph, read.stages)
        number = {where: operator for operator, where in enumerate(place)}
        planned = plan_order(problem, [number[where] for where in found.order])
        require_fit("main", planned, found.bound, self.budget)
        if found.order == tuple(range(len(read.stages))):
            return module
        return _with_stages(module, found.order)


def _with_stages(module: tvm.IRModule, order: tuple[int, ...]) -> tvm.IRModule:
    """A scheduled module with its stages in another order: calls, attributes and schedule."""
    new = {old: place for place, old in enumerate(order)}
    stages: list[list[relax.VarBinding]] = [[] for _ in order]
    for binding in bindings_of(module["main"]):
        value = binding.value
        if isinstance(value, relax.Call) and isinstance(value.op, tvm.ir.GlobalVar):
            stages[new[int(module[value.op].attrs[STAGE])]].append(binding)
    moved = reorder(module, stages)
    functions = {
        variable: function.with_attr(STAGE, new[int(function.attrs[STAGE])])
        if function.attrs and STAGE in function.attrs
        else function
        for variable, function in moved.functions_items()
    }
    schedule = json.loads(str(module.attrs[SCHEDULE]))
    for key in ("stages", "latencies"):
        if schedule[key]:
            schedule[key] = [schedule[key][old] for old in order]
    if "placements" in schedule:
        schedule["placements"] = [[new[stage], shares] for stage, shares in schedule["placements"]]
    attributes = dict(module.attrs.items()) | {SCHEDULE: json.dumps(schedule)}
    return tvm.IRModule(functions, attrs=attributes)
