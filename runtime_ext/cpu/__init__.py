"""A CPU: the compiler of units, the ways to cut contractions, the CPU as a device, its peak.

``kernels/`` writes kernels of every description.

``bfloat16_forms.py``
    Units whose weights are rounded to bfloat16, and which of these may be faster.
``blocking_features.py``
    What may tell fast blockings of a contraction from slow ones, for a learned cost model.
``compiler.py``
    Compile units: every kernel once, in parallel, and never again once it is cached on disk.
``device.py``
    The CPU as a device: programs are timed on the native executor.
``hierarchy.py``
    This machine's CPU as a memory hierarchy, read at run time.
``integer_forms.py``
    Units whose contractions are of integers, as quantised models have them, on an x86 CPU.
``kernel_timer.py``
    Time blockings of one contraction side by side, on as many lanes as will run them.
``linker.py``
    Link object files into shared libraries, by a C++ compiler or by the package ziglang.
``machine_code.py``
    From TVM's compiled modules to object code.
``machine_description.py``
    What to write beside every measurement: the machine that it holds for, and what it can do.
``named_forms.py``, ``winograd_forms.py``
    The forms of a unit that a schedule has to name: who makes them, and which may win by an
    estimate; those whose convolutions are computed by Winograd's filtering.
``peak.py``
    What this machine can do at most, measured: arithmetic in GFLOP/s and memory traffic in
    GB/s.
``tilings.py``
    Other tilings of kernels than the default, chosen to trade differently (analytic).
``vector_space.py``
    The ways in which a CPU with vectors may cut a contraction: register tiles, orders of loops.
"""
