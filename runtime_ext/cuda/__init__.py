"""Kernels and programs for NVIDIA GPUs: compiled without one, run where one is."""
