"""Rewrite quantised operators in floats that hold the integers exactly."""
