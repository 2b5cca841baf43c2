"""The integer program solved, by CP-SAT or by HiGHS, behind one function."""

from __future__ import annotations

import importlib
import math
import time
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any

import numpy as np

from tvm_ios.errors import UserError
from tvm_ios.graph.op_graph import bits
from tvm_ios.memory.fused_graph import FusedGraph
from tvm_ios.memory.orders import Answer
from tvm_ios.memory.published.integer_program import IntegerProgram, integer_program
from tvm_ios.solvers.cp_sat import solve_by_cp_sat


class SolverError(UserError):
    """A solver that is not there, with one sentence that says how to get it."""


#: Values of the variables (None if none were found) and the largest proven bound of the peak, in
#: units, within so many seconds; the start gives variables that are 1 in a known solution.
_Solver = Callable[[IntegerProgram, set[int], float], tuple[Sequence[int] | None, int]]


def solve_order(
    graph: FusedGraph,
    low: int,
    high: int,
    start: Sequence[int],
    until: float,
    *,
    bound: int = 0,
    solver: str = "cp-sat",
) -> Answer:
    """Order some nodes with the smallest peak by integer programming.

    Parameters
    ----------
    graph
        Of nodes.
    low, high
        The states where orders begin and end: bit sets of executed nodes.
    start
        The nodes in any order.
    until
        When to stop at the latest, by :func:`time.perf_counter`.
    bound
        Bytes that no order is below.
    solver
        ``"cp-sat"`` or ``"highs"``.

    Raises
    ------
    SolverError
        If there is no such solver.
    """
    if solver not in SOLVERS:
        raise SolverError(f"there is no solver {solver!r}: use one of {', '.join(SOLVERS)}")
    peak = graph.peak_from(low, start)
    seconds = until - time.perf_counter()
    if bound >= peak or seconds <= 0:
        return Answer(tuple(start), peak, min(bound, peak))
    program = integer_program(graph, low, high, bound, peak)
    hint = {program.x[node, step] for step, node in enumerate(start)}
    values, least = SOLVERS[solver](program, hint, seconds)
    best = Answer(tuple(start), peak, min(peak, max(bound, least * program.unit)))
    if values is None:
        return best
    nodes = tuple(u for _, u in sorted((t, u) for (u, t), x in program.x.items() if values[x]))
    assert sorted(nodes) == list(bits(high & ~low))
    peak_of_nodes = graph.peak_from(low, nodes)
    return (
        Answer(nodes, peak_of_nodes, min(best.bound, peak_of_nodes))
        if peak_of_nodes < peak
        else best
    )


def _cp_sat(
    program: IntegerProgram, hint: set[int], seconds: float
) -> tuple[Sequence[int] | None, int]:
    from ortools.sat.python import cp_model

    model = cp_model.CpModel()
    peak = model.new_int_var(program.lowest, program.highest, "peak")
    variables = [peak, *(model.new_bool_var(f"{v}") for v in range(1, program.variables))]
    for chosen in program.exactly_one:
        model.add_exactly_one(variables[v] for v in chosen)
    for row, bound in program.rows:
        terms = sum(coefficient * variables[v] for v, coefficient in row.items())
        model.add(terms <= bound)
    for x in program.x.values():
        model.add_hint(variables[x], x in hint)
    model.minimize(peak)
    solved = solve_by_cp_sat(model, "max_time_in_seconds", seconds)
    if solved is None:
        return None, program.lowest
    solver, _ = solved
    # The objective is a whole number: the bound may be rounded up.
    least = math.ceil(solver.best_objective_bound - 1e-6)
    return [solver.value(variable) for variable in variables], least


def _highs(
    program: IntegerProgram, hint: set[int], seconds: float
) -> tuple[Sequence[int] | None, int]:
    del hint  # scipy's interface takes no start.
    try:
        # Without stubs for the checker.
        optimize: Any = importlib.import_module("scipy.optimize")
        sparse: Any = importlib.import_module("scipy.sparse")
    except ImportError as error:
        raise SolverError(
            "the solver HiGHS comes with scipy, which is not installed: "
            "pip install 'tvm-ios[highs]', or use cp-sat"
        ) from error
    rows = [
        *((row, -np.inf, bound) for row, bound in program.rows),
        *((dict.fromkeys(chosen, 1), 1, 1) for chosen in program.exactly_one),
    ]
    entries = [(i, v, c) for i, (row, _, _) in enumerate(rows) for v, c in row.items()]
    number, variable, value = (np.asarray(column) for column in zip(*entries, strict=True))
    matrix = sparse.coo_array((value, (number, variable)), shape=(len(rows), program.variables))
    limits = optimize.LinearConstraint(
        matrix.tocsr(), np.asarray([r[1] for r in rows]), np.asarray([r[2] for r in rows])
    )
    ones, zeros = np.ones(program.variables), np.zeros(program.variables)
    least, most, objective = zeros.copy(), ones.copy(), zeros.copy()
    least[0], most[0], objective[0] = program.lowest, program.highest, 1
    result: Any = optimize.milp(
        objective,
        integrality=ones,
        bounds=optimize.Bounds(least, most),
        constraints=limits,
        options={"time_limit": seconds, "mip_rel_gap": 0},
    )
    bound = program.lowest
    if result.mip_dual_bound is not None and np.isfinite(result.mip_dual_bound):
        bound = max(bound, math.ceil(result.mip_dual_bound - 1e-6))
    return (None if result.x is None else [round(v) for v in result.x]), bound


#: By the names that :func:`solve_order` knows.
SOLVERS: Mapping[str, _Solver] = MappingProxyType({"cp-sat": _cp_sat, "highs": _highs})
