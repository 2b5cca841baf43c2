"""An order that fits a budget of bytes."""

from __future__ import annotations

from tvm_ios.errors import UserError
from tvm_ios.memory.optimal import schedule_optimal
from tvm_ios.memory.orders import MemoryOrder
from tvm_ios.memory.problem import MemoryProblem
from tvm_ios.memory.schedulers import MEMORY_SCHEDULERS


class BudgetError(UserError):
    """A budget that no order was found for, with one sentence that says what is missing."""


def fit_budget(problem: MemoryProblem, budget: int, time_limit: float) -> MemoryOrder:
    """The first order that fits, of those that take no search and then of the best.

    Parameters
    ----------
    problem
        Of any size.
    budget
        Bytes that the peak may have.
    time_limit
        Seconds.

    Raises
    ------
    BudgetError
        If the best order that was found does not fit.
    """
    found = MEMORY_SCHEDULERS["rpo"](problem, time_limit)
    if found.peak > budget:
        found = schedule_optimal(problem, time_limit)
    if found.peak <= budget:
        return found
    missing = found.peak - budget
    if found.bound > budget:
        known = "the smallest peak of all" if found.proven else "the best found"
        raise BudgetError(
            f"no order fits {budget} bytes: {known}, {found.peak} bytes, is {missing} bytes too "
            f"many, and none is below {found.bound}; a larger budget is needed"
        )
    raise BudgetError(
        f"no order was found that fits {budget} bytes: the best, {found.peak} bytes, is {missing} "
        f"bytes too many, but one of {found.bound} bytes is not ruled out; a longer time limit "
        "may find it"
    )
