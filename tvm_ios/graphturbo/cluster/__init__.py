"""A simulated cluster of cores that runs GraphTurbo's instances.

- workload: the network for another batch or precision
- binding: the cores of each instance (Algorithm 4); moves: data moved between them (3.5)
- tiling: tiles of layers (4.1); stitching: runs of layers that exchange them in local buffers (4.2)
- kernel: an instance as runs of layers; tasks: all of them as steps
- spilling, residence: the buffer of each tensor and weight (4.3)
- engines, overlap: the time of tiles, layer by layer and with layers that overlap (4.4)
- simulate: the time of a program by a hierarchy's figures
- plan: the result as a plan, for people and files
- variants: layer by layer, AStitch's way, and the variants of the paper's figure 15
"""
