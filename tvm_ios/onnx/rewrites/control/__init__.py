"""Unroll control flow and sequences that constants and shapes decide."""
