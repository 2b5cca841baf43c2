"""How much of a GPU kernels occupy: the parts of ``cuda_kernels.py`` that estimate.

occupancy.py        blocks, waves and times of a network's kernels, cut as before and as now
earlier_tiles.py    the rule by which they were cut before
"""
