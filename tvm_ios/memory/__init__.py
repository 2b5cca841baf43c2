"""Operator orders with a small peak memory."""
