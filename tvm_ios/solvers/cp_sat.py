"""CP-SAT, the constraint solver of OR-Tools, run so that it is repeatable and Ctrl-C ends it."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor, wait
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ortools.sat.python.cp_model import CpModel, CpSolver

#: Seconds after which an interrupted solver is told to stop again: it ignores this until it runs.
_STOP_SECONDS = 0.01


def solve_by_cp_sat(model: CpModel, limit: str, amount: float) -> tuple[CpSolver, bool] | None:
    """Solve a model on one thread; return the solver and whether its solution is proven optimal.

    Return None if no solution was found. ``limit`` names the parameter of the solver that limits it
    to ``amount``: ``"max_time_in_seconds"``, or ``"max_deterministic_time"``, with which the same
    model gives the same answer everywhere.
    """
    # Not at the top: it takes a moment to import.
    from ortools.sat.python import cp_model

    solver = cp_model.CpSolver()
    solver.parameters.num_workers = 1
    solver.parameters.random_seed = 0
    # The solver's own handler treats Ctrl-C as the end of the time, and removes ours: the next
    # Ctrl-C would end the process without a message.
    solver.parameters.catch_sigint_signal = False
    setattr(solver.parameters, limit, amount)
    # Signals are raised in the main thread, which therefore must not be the one that solves.
    with ThreadPoolExecutor(1) as thread:
        solving = thread.submit(solver.solve, model)
        try:
            status = solving.result()
        except BaseException:
            while not solving.done():
                solver.stop_search()
                wait([solving], _STOP_SECONDS)
            raise
    if status not in (cp_model.OPTIMAL, cp_model.FEASIBLE):
        return None
    return solver, status == cp_model.OPTIMAL
