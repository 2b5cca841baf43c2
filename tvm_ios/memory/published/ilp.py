"""Solve the ordering integer program by CP-SAT or SCIP."""

from __future__ import annotations

import math
import time
from collections.abc import Sequence

from tvm_ios.graph.op_graph import bits
from tvm_ios.memory.fused_graph import FusedGraph
from tvm_ios.memory.options import DEFAULT, SchedulerOptions
from tvm_ios.memory.orders import Answer
from tvm_ios.memory.published.integer_program import IntegerProgram, integer_program
from tvm_ios.solvers.cp_sat import solve_by_cp_sat


def solve_order(
    graph: FusedGraph,
    low: int,
    high: int,
    start: Sequence[int],
    until: float,
    bound: int = 0,
    options: SchedulerOptions = DEFAULT,
) -> Answer:
    """Order the nodes between two states by integer programming, until ``until``.

    ``start`` is a known order of them and ``bound`` a lower bound of the peak in bytes. Return the
    start if no better order is found.
    """
    peak = graph.peak_from(low, start)
    if bound >= peak or until <= time.perf_counter():
        return Answer(tuple(start), peak, min(bound, peak))
    program = integer_program(graph, low, high, bound, peak, options.pruning)
    hint = {program.x[node, step] for step, node in enumerate(start)}
    # To write it down takes its time too, unpruned more than to solve it.
    seconds = max(0.0, until - time.perf_counter())
    solve = _solve if options.solver == "cp-sat" else _solve_by_scip
    values, least = solve(program, hint, seconds)
    least_peak = min(peak, max(bound, least * program.unit))
    if values is None:
        return Answer(tuple(start), peak, least_peak)
    nodes = tuple(u for _, u in sorted((t, u) for (u, t), x in program.x.items() if values[x]))
    assert sorted(nodes) == list(bits(high & ~low))
    solved_peak = graph.peak_from(low, nodes)
    if solved_peak >= peak:
        return Answer(tuple(start), peak, least_peak)
    return Answer(nodes, solved_peak, min(least_peak, solved_peak))


def _solve(
    program: IntegerProgram, hint: set[int], seconds: float
) -> tuple[Sequence[int] | None, int]:
    """Return the variables' values (None if none were found), and a lower bound of the peak.

    The bound is in the program's units. ``hint`` has the variables that are 1 in a known solution.
    """
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


def _solve_by_scip(
    program: IntegerProgram, hint: set[int], seconds: float
) -> tuple[Sequence[int] | None, int]:
    """Solve as :func:`_solve` does, by branch and bound on linear programs."""
    from ortools.linear_solver.python import model_builder

    model = model_builder.Model()
    peak = model.new_int_var(program.lowest, program.highest, "peak")
    variables = [peak, *(model.new_bool_var(f"{v}") for v in range(1, program.variables))]
    for chosen in program.exactly_one:
        model.add(sum(variables[v] for v in chosen) == 1)
    for row, bound in program.rows:
        terms = sum(coefficient * variables[v] for v, coefficient in row.items())
        model.add(terms <= bound)
    for x in program.x.values():
        model.add_hint(variables[x], x in hint)
    model.minimize(peak)
    solver = model_builder.Solver("scip")
    solver.set_time_limit_in_seconds(seconds)
    status = solver.solve(model)
    if status not in (model_builder.SolveStatus.OPTIMAL, model_builder.SolveStatus.FEASIBLE):
        return None, program.lowest
    least = math.ceil(solver.best_objective_bound - 1e-6)
    return [round(solver.value(variable)) for variable in variables], least
