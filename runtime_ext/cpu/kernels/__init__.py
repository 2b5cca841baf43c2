"""Kernels of every description for CPUs, as TIR over a range of their tiles."""
