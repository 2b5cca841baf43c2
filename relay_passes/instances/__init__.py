"""Instances of sub-graphs written into a module."""
