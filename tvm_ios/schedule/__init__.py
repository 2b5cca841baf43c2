"""Schedules as plain data: stages, placements, instances, and the orders of stages."""
