"""Exact search for the order with the least peak memory, with a lower bound.

- optimal: the scheduler, on the files below
- fusion: nodes that can run back to back without a larger peak, with isolated sub-graphs
- least_peak: exact search with a rising threshold, on state_search and minimum_cut
- bisection: fallback where that takes too long, on forced_order
"""
