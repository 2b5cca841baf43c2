"""Check an arena against a memory budget."""

from __future__ import annotations

from tvm_ios.errors import MemoryBudgetError
from tvm_ios.files.byte_sizes import kib
from tvm_ios.program.arena.planner import PlannedMemory


def require_fit(name: str, arena: PlannedMemory, bound: int, budget: int | None) -> None:
    """Raise MemoryBudgetError if an arena exceeds a budget in bytes (None: no limit).

    The message says by how much, and, from the lower bound, whether another order could fit.
    """
    needed = arena.plan.nbytes
    if budget is None or needed <= budget:
        return
    lacking = (
        f"{name} does not fit into {kib(budget)} KiB: the best order that was found needs "
        f"{kib(needed)} KiB, {kib(needed - budget)} KiB more"
    )
    if bound > budget:
        raise MemoryBudgetError(f"{lacking}, and no order needs less than {kib(bound)} KiB")
    raise MemoryBudgetError(f"{lacking}; a longer search may find a better one")
