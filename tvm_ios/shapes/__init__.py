"""Shapes of inputs: numbers, ranges, and the expressions of symbols that extents are in a range."""
