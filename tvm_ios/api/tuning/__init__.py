"""Tuning a model's kernels into a log."""
