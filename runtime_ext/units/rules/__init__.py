"""Rules that turn operators into kernels: a function an operator, listed in ``registry.py``."""
