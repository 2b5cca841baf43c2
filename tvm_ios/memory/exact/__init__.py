"""The order with the least peak memory, and its proof.

- optimal: the scheduler, which goes through the files below
- fusion: what may run one right after another, with isolated sub-graphs
- least_peak: exact search with a rising threshold, on state_search and minimum_cut
- bisection: where that takes too long, on forced_order
"""
