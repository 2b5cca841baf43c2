"""Kernels of all kinds of specs for GPUs, as TIR bound to blocks and threads."""
