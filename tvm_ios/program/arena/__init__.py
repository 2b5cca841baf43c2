"""Plan one arena for a program's intermediate memory: buffers that may share bytes, and offsets.

- planner: the entry point, on the other files
- lifetimes: times of use of buffers; bound: a lower bound of every arena's size
- best_fit: buffers one after another in the smallest gap; solver: CP-SAT, where that is not enough
- lane_regions: an arena in which every lane has bytes of its own
- check: proves any plan safe, independently of the planner
"""
