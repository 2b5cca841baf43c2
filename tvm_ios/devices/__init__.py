"""Described devices: figures of processors and memories, each with its source.

- device: processors and GPUs, from ``device_data/``
- memory_hierarchy: accelerators with buffers of several levels, from ``hierarchy_data/``
- figure_files: reads the files of both
- occupancy: the number of thread blocks of a kernel that a GPU holds at once
"""
