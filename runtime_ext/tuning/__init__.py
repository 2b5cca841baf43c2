"""Tuning logs for CPUs and GPUs, made by timing variants of kernels."""
