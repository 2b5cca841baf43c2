"""One arena for a program's intermediate memory: which buffers may share bytes, and their offsets.

- planner: puts the other files together
- lifetimes: when buffers are in use; bound: a lower bound of every arena's size
- best_fit: buffers one after another in the smallest gap; solver: CP-SAT, where that is not enough
- lane_regions: an arena in which every lane has bytes of its own
- check: proves any plan safe, independently of the planner
"""
