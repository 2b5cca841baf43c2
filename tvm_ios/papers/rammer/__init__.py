"""Rammer (OSDI 2020).

- rows: which function makes which
- models: the networks and their parameters
"""
