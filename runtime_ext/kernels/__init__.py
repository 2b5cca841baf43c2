"""What kernels of all devices share: what they compute, as plain data, and how TIR is written.

Nothing here knows a unit or a device's instructions.

``artefact.py``
    A compiled kernel on disk: its machine code and a description, found by their key.
``chain.py``
    Kernels in one, of which each alone reads what the one before it makes: plain data.
``code.py``
    A small vocabulary for writing TIR by hand: bindings, loops, branches, vectors.
``cut.py``
    How the work of a contraction is cut: into blockings on CPUs, into tiles of blocks on GPUs.
``cutter.py``
    How a device cuts contractions.
``default_schedule.py``
    A plain schedule of any function of TVM's for CPUs: tiles for lanes, and vectors along rows.
``expression.py``
    Element-wise expressions: what a kernel does to a value before it stores it.
``float_edges.py``
    What TVM lowers, with infinities and NaN as ONNX has them.
``function_builder.py``
    Functions of Relax that are built, side by side in threads, and with errors in between.
``generic.py``
    Any operator that Relax legalises: TVM's own code, with a plain schedule.
``interpolator.py``
    What images enlarged by whole factors have at one input pixel, for any device.
``library_convolution.py``
    A convolution that a kernel library computes in the place of a kernel: plain data.
``operator_function.py``
    A Relax operator as a function of its tensors.
``packed_contraction.py``
    Contractions of packs of channels in 8 or 16 bits, by instructions on vectors or on matrices.
``phases.py``
    Split a scheduled PrimFunc into phases that run any range of their tiles.
``quotients.py``
    Rounded and clipped quotients by a number, computed exactly without division.
``relax_function.py``
    Reading Relax functions: what a unit's parameters, operators and results are.
``spec.py``
    What a kernel computes, as plain data: enough to write its code and to recognise its equal.
``statements.py``
    What every kernel does with a value: activate it when read, store it by its statements.
``tile_work.py``
    How much a tile is of kernels that reduce little or nothing, and which have smaller ones.
``tir_calls.py``
    The TIR functions that a unit calls: they go with its function, which leaves its module.
``transcendental.py``
    exp, tanh, the logistic function and erf in arithmetic that LLVM vectorises.
``winograd_convolution.py``
    A convolution by Winograd's filtering, as the two kernels that compute it: plain data.
"""
