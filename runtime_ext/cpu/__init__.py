"""A CPU: the compiler of units, the ways to cut contractions, the CPU as a device, its peak.

``kernels/`` writes kernels of every description.

``bfloat16_forms.py``
    Units whose weights are rounded to bfloat16, and which of these may be faster.
``blocking_features.py``
    Features of a contraction's blocking, for a learned cost model.
``compiler.py``
    Compile units: each kernel once, in parallel, with a cache on disk.
``device.py``
    The CPU as a device: programs are timed on the native executor.
``hierarchy.py``
    This machine's CPU as a memory hierarchy, read at run time.
``integer_forms.py``
    Units whose contractions are of integers, as quantised models have them, on an x86 CPU.
``kernel_timer.py``
    Time blockings of one contraction in turns, on as many lanes as will run them.
``linker.py``
    Link object files into shared libraries, by a C++ compiler or by the package ziglang.
``machine_code.py``
    Convert TVM's compiled modules to object code.
``machine_description.py``
    Describe the machine on which measurements are taken, and its peak performance.
``named_forms.py``, ``winograd_forms.py``
    Plans of a unit that schedules select by name, and which may be fastest by an estimate;
    those whose convolutions use Winograd's filtering.
``peak.py``
    Measure this machine's peak: arithmetic in GFLOP/s and memory traffic in
    GB/s.
``tilings.py``
    Coarser and finer tilings of kernels than the default (analytic).
``vector_space.py``
    The space of blockings of a contraction on a CPU: register tiles, loop orders.
"""
