"""Kernels for CPUs, their compiler, and the CPU as a device."""
