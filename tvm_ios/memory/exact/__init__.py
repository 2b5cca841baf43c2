"""Exact search for the order with the least peak memory, with a lower bound."""
