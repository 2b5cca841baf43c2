"""Kernels of every description for CPUs, as TIR over a range of their tiles.

``attention.py``
    Attention as one kernel: a tile is some rows of queries.
``bfloat16_contraction.py``
    Contractions with weights in bfloat16, converted in registers or multiplied in pairs.
``blocking.py``
    Choose a contraction's register tile (analytic; nothing is measured).
``build.py``
    Compile a kernel's spec to machine code.
``chain.py``
    Two fused kernels: the first's results for a tile of the second stay in a cache.
``contraction.py``
    Convolutions and matrix products: a register tile of pixels by channels, inputs broadcast.
``integer_contraction.py``
    Contractions of integers on x86: a register tile as of floats, more products an instruction.
``interleave.py``
    Interleave groups of channels in registers: load vectors, shuffle them, store.
``interpolation.py``
    Images enlarged by whole factors: each input's neighbourhood is read once for all its
    results.
``linear_map.py``
    Multiply vectors by a constant matrix, skipping zeros, sharing work of paired rows.
``matrix_contraction.py``, ``matrix_registers.py``
    Contractions of bfloat16 or bytes by AMX, and its registers as functions in LLVM's IR.
``mean.py``
    The mean of all pixels, channel by channel.
``normalisation.py``
    Softmax and layer normalisation over the innermost axis: a few passes over each row.
``passes.py``
    Prefetch the next weights to the second-level cache while the current are multiplied.
``pointwise.py``
    Element-wise operators, sums, concatenations and copies: memory in, memory out.
``pooling.py``
    Pooling and depthwise convolutions: vectors of channels, pixels and kernel columns unrolled.
``product.py``
    Products of two matrices that are both data: a register tile of rows by columns.
``rows.py``
    Cut a row of output pixels into register tiles with known handling of borders.
``tile_code.py``
    The code of a kernel, as a loop over a range of its tiles.
``winograd_input.py``, ``winograd_output.py``
    The two kernels of Winograd's filtering: tiles of the input, transformed; products, and the
    tiles of outputs they become.
"""
