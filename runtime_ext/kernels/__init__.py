"""Parts that kernels of all devices share: specs as plain data, and helpers that write TIR.

Nothing here knows a unit or a device's instructions.

``artefact.py``
    A compiled kernel on disk: its machine code and a description, found by their key.
``chain.py``
    Fused kernels, each the only reader of the result of the one before it: plain data.
``code.py``
    A small vocabulary for writing TIR by hand: bindings, loops, branches, vectors.
``cut.py``
    The cut of a contraction: blockings on CPUs, tiles of blocks on GPUs.
``cutter.py``
    The interface by which a device cuts contractions.
``default_schedule.py``
    A plain CPU schedule of any TVM function: parallel tiles, and vectors along rows.
``expression.py``
    Element-wise expressions, which a kernel applies to a value before it stores it.
``float_edges.py``
    Correct TVM's lowered functions at infinities and NaN, as ONNX defines them.
``function_builder.py``
    A builder of Relax functions that is safe in threads and after errors.
``generic.py``
    Any operator that Relax legalises: TVM's own code, with a plain schedule.
``interpolator.py``
    Interpolate images enlarged by whole factors, for any device.
``library_convolution.py``
    A convolution that a kernel library computes instead of a generated kernel: plain data.
``operator_function.py``
    A Relax operator as a function of its tensors.
``packed_contraction.py``
    Contractions of packs of channels in 8 or 16 bits, by instructions on vectors or on matrices.
``phases.py``
    Split a scheduled PrimFunc into phases that run any range of their tiles.
``quotients.py``
    Rounded and clipped quotients by a number, computed exactly without division.
``relax_function.py``
    Read Relax functions: parameters, operators and results of a unit.
``spec.py``
    Specs of kernels as plain data: enough to write their code and to recognise equal ones.
``statements.py``
    Apply prologues to values that kernels read, and evaluate and store their statements.
``tile_work.py``
    Sizes of tiles of kernels that reduce little or nothing, and of their finer tiles.
``tir_calls.py``
    Attach to a unit's function the TIR functions that it calls, as it leaves its module.
``transcendental.py``
    exp, tanh, the logistic function and erf in arithmetic that LLVM vectorises.
``winograd_convolution.py``
    A convolution by Winograd's filtering, as the two kernels that compute it: plain data.
"""
