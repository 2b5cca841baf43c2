"""The integer program solved by CP-SAT."""

from __future__ import annotations

import math
import time
from collections.abc import Sequence

from tvm_ios.graph.op_graph import bits
from tvm_ios.memory.fused_graph import FusedGraph
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
) -> Answer:
    """Order some nodes with the smallest peak by integer programming.

    Parameters
    ----------
    graph
        The graph of fused nodes.
    low, high
        The states where orders begin and end: bit sets of executed nodes.
    start
        The nodes in any order.
    until
        When to stop at the latest, by :func:`time.perf_counter`.
    bound
        Bytes that no order is below.
    """
    peak = graph.peak_from(low, start)
    seconds = until - time.perf_counter()
    if bound >= peak or seconds <= 0:
        return Answer(tuple(start), peak, min(bound, peak))
    program = integer_program(graph, low, high, bound, peak)
    hint = {program.x[node, step] for step, node in enumerate(start)}
    values, least = _solve(program, hint, seconds)
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
    """Values of the variables (None if none were found), and the largest proven bound of the peak.

    Parameters
    ----------
    program
        What is to be solved; the bound is in its units.
    hint
        The variables that are 1 in a solution that is known.
    seconds
        How long it may take.
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
