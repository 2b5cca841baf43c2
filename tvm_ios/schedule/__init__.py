"""Schedules as plain data."""
