"""Ctrl-C while CP-SAT solves and after it: an exception, as everywhere else."""

from __future__ import annotations

import os
import signal
import threading
from random import Random

import pytest
from ortools.sat.python import cp_model

from tvm_ios.solvers.cp_sat import solve_by_cp_sat


def market_split(rows: int, columns: int) -> cp_model.CpModel:
    """Sums that must come out exactly: small, and hopeless (Cornuejols and Dawande, 1999)."""
    random, model = Random(0), cp_model.CpModel()
    chosen = [model.new_bool_var(f"{i}") for i in range(columns)]
    for _ in range(rows):
        weights = [random.randrange(10**6) for _ in chosen]
        model.add(sum(w * x for w, x in zip(weights, chosen, strict=True)) == sum(weights) // 2)
    return model


@pytest.mark.usefixtures("hearing")
def test_it_leaves_the_handler_of_ctrl_c_alone() -> None:
    model = cp_model.CpModel()
    model.maximize(model.new_int_var(0, 7, "x"))
    solved = solve_by_cp_sat(model, "max_deterministic_time", 1.0)
    assert solved is not None
    solver, proven = solved
    assert (solver.objective_value, proven) == (7, True)
    with pytest.raises(KeyboardInterrupt):
        os.kill(os.getpid(), signal.SIGINT)


@pytest.mark.usefixtures("hearing")
def test_ctrl_c_ends_it() -> None:
    later = threading.Timer(0.3, os.kill, (os.getpid(), signal.SIGINT))
    later.start()
    with pytest.raises(KeyboardInterrupt):
        solve_by_cp_sat(market_split(6, 60), "max_time_in_seconds", 900.0)
    later.join()


def test_what_has_no_solution_or_no_time() -> None:
    model = cp_model.CpModel()
    model.add(model.new_int_var(0, 7, "x") > 8)
    assert solve_by_cp_sat(model, "max_deterministic_time", 1.0) is None
    assert solve_by_cp_sat(market_split(6, 60), "max_deterministic_time", 0.1) is None
