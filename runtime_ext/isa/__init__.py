"""Instruction sets of CPUs: all that differs from one architecture to another, as data."""
