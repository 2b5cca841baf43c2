"""Solvers of combinatorial problems, which know nothing of graphs.

- cp_sat: OR-Tools' constraint solver, the same answer each time
- pbqp: a choice for each variable, at the least cost in all
"""
