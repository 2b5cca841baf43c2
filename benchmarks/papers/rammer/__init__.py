"""Rammer (OSDI 2020).

- rows: which function makes which
- models: the networks and their parameters
- simulated: Rammer and its baseline on a described device, with two sets of kernels
- performance: what both take for the networks
- modules: random modules of NAS-Bench; fine_grained: what both take for them
"""
