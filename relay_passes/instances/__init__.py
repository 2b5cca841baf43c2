"""Instances of sub-graphs written into a module: operators on parts, pieces, calls."""
