"""Solvers of combinatorial problems, independent of graphs.

- cp_sat: OR-Tools' constraint solver, deterministic
- pbqp: a choice for each variable, at the least total cost
"""
