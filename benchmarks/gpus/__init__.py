"""Kernels for GPUs, compiled without one; and the suite that is measured on one.

cuda_kernels.py        threads, registers, shared memory and occupancy of networks' kernels
persistent_kernel.py   blocks of networks as one persistent kernel each
fill/                  how much of a GPU kernels occupy
gpu.py                 prepares the suite here, and measures it on a machine with a GPU
suite/                 its parts
"""
