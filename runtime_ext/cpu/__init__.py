"""A CPU: what writes kernels of every description, their compiler, and the CPU as a device.

``blocking.py``
    Choose a contraction's register tile (analytic; nothing is measured).
``blocking_features.py``
    What may tell fast blockings of a contraction from slow ones, for a learned cost model.
``build.py``
    From a kernel's spec to machine code.
``compiler.py``
    Compile units: every kernel once, in parallel, and never again once it is cached on disk.
``contraction.py``
    Convolutions and matrix products: a register tile of pixels by channels, inputs broadcast.
``device.py``
    The CPU as a device: programs are timed on the native executor.
``hierarchy.py``
    This machine's CPU as a memory hierarchy, read at run time.
``interleave.py``
    Interleave groups of channels in registers: vectors in, shuffled vectors out.
``interpolation.py``
    Images enlarged by whole factors: each input's neighbourhood is read once for all its
    results.
``kernel_timer.py``
    Time blockings of one contraction side by side, on as many lanes as will run them.
``machine_code.py``
    From TVM's compiled modules to object code and shared libraries.
``machine_description.py``
    What to write beside every measurement: the machine that it holds for, and what it can do.
``mean.py``
    The mean of all pixels, channel by channel.
``normalisation.py``
    Softmax and layer normalisation over the innermost axis: a few passes over each row.
``peak.py``
    What this machine can do at most, measured: arithmetic in GFLOP/s and memory traffic in
    GB/s.
``pointwise.py``
    Element-wise operators, sums, concatenations and copies: memory in, memory out.
``pooling.py``
    Pooling and depthwise convolutions: vectors of channels, pixels and kernel columns unrolled.
``product.py``
    Products of two matrices that are both data: a register tile of rows by columns.
``rows.py``
    Cut a row of output pixels into register tiles whose border handling is known.
``tile_code.py``
    The code of a kernel, as a loop over a range of its tiles.
``tilings.py``
    Other tilings of kernels than the default, chosen to trade differently (analytic).
``vector_space.py``
    The ways in which a CPU with vectors may cut a contraction: register tiles, orders of loops.
``vector_unit.py``
    What a CPU target's vector registers can hold.
"""
