"""Costs by measuring: stages are lowered, timed on a device, and remembered in a log."""
