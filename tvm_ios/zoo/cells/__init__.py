"""Networks of cells that were searched, or wired at random.

- stacking: what cells have in common, and how they are stacked; genotype: cells as published
- nasnet_a, amoebanet_a, darts: searched cells; nasbench: random cells of NAS-Bench-101
- randwire: random wirings
"""
