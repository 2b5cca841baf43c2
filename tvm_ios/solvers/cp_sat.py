"""CP-SAT, the constraint solver of OR-Tools: the same answer each time, and Ctrl-C ends it."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor, wait
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ortools.sat.python.cp_model import CpModel, CpSolver

#: How often a solver that was interrupted is told to stop: it does not hear it before it began.
_STOP_SECONDS = 0.01


def solve_by_cp_sat(model: CpModel, limit: str, amount: float) -> tuple[CpSolver, bool] | None:
    """Solve a model on one thread.

    Parameters
    ----------
    model
        The model.
    limit, amount
        The parameter of the solver that limits it, and to what: ``"max_time_in_seconds"``, or
        ``"max_deterministic_time"``, with which the same model gives the same answer everywhere.

    Returns
    -------
    solver, proven
        The solver with the best solution that was found, and whether none are better; None if
        none was found.
    """
    # It takes a moment to import.
    from ortools.sat.python import cp_model

    solver = cp_model.CpSolver()
    solver.parameters.num_workers = 1
    solver.parameters.random_seed = 0
    # Its own handler takes Ctrl-C for the end of the time, and leaves none behind: the next one
    # ends the process without a word.
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
