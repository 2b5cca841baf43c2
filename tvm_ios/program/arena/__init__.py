"""One arena for a program's intermediate memory: who may share bytes, and where all lie.

- planner: puts the other files together
- lifetimes: when buffers are in use; bound: what no arena is smaller than
- best_fit: buffers one after another in the smallest gap; solver: by CP-SAT, where that leaves some
- lane_regions: an arena in which every lane has bytes of its own
- check: proves any plan safe, and knows nothing of the planner
"""
