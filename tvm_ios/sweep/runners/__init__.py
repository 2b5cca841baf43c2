"""Runners: where the tasks of a sweep run."""
