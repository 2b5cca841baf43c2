"""A simulated cluster of cores that runs GraphTurbo's instances.

- workload: the network for another batch or precision
- tasks: instances as tasks, a layer each
- spilling: which tensors stay in which buffer (section 4.3)
- simulate: the time of tasks by a hierarchy's figures
- variants: layer by layer, and the variants of the paper's figure 15
"""
