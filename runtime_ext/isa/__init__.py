"""Instruction sets of CPUs: all that differs from one architecture to another, as data.

``arm.py``, ``x86.py``
    The levels of an architecture that code is compiled for, its vectors and its instructions.
``isa.py``
    The form of these data: an instruction set as kernels see it, and a level.
``levels.py``
    Find the level of a machine or a processor, and the instruction set of a target.
"""
