"""Solvers of combinatorial problems, independent of graphs."""
