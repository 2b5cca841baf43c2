"""Estimated times of this project's CUDA kernels, by which they are cut and schedules searched."""
