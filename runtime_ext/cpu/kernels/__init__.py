"""Kernels of every description for CPUs, as TIR over a range of their tiles.

``attention.py``
    Scores, their softmax and the product with values as one: some rows of queries a tile.
``bfloat16_contraction.py``
    Contractions with weights in bfloat16: widened in registers, or multiplied in pairs as they are.
``blocking.py``
    Choose a contraction's register tile (analytic; nothing is measured).
``build.py``
    From a kernel's spec to machine code.
``chain.py``
    Two kernels as one, of which the second alone reads what the first makes.
``contraction.py``
    Convolutions and matrix products: a register tile of pixels by channels, inputs broadcast.
``integer_contraction.py``
    Contractions of integers on x86: a register tile as of floats, more products an instruction.
``interleave.py``
    Interleave groups of channels in registers: vectors in, shuffled vectors out.
``interpolation.py``
    Images enlarged by whole factors: each input's neighbourhood is read once for all its
    results.
``linear_map.py``
    Multiply a few vectors by a constant matrix: zeros left out, what pairs share computed once.
``matrix_contraction.py``, ``matrix_registers.py``
    Contractions of bfloat16 or bytes by AMX, and its registers as functions in LLVM's IR.
``mean.py``
    The mean of all pixels, channel by channel.
``normalisation.py``
    Softmax and layer normalisation over the innermost axis: a few passes over each row.
``passes.py``
    Weights that come into the second-level cache while those before them are multiplied.
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
``vector_unit.py``
    What a CPU target's vector registers can hold.
``winograd_input.py``, ``winograd_output.py``
    The two kernels of Winograd's filtering: tiles of the input, transformed; products, and the
    tiles of outputs they become.
"""
