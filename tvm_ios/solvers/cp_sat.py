"""CP-SAT, the constraint solver of OR-Tools, run so that it is repeatable and Ctrl-C ends it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tvm_ios.solvers.interruptible import run_interruptibly

if TYPE_CHECKING:
    from ortools.sat.python.cp_model import CpModel, CpSolver


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
    status = run_interruptibly(lambda: solver.solve(model), solver.stop_search)
    if status not in (cp_model.OPTIMAL, cp_model.FEASIBLE):
        return None
    return solver, status == cp_model.OPTIMAL
