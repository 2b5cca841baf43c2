"""From a unit, a Relax function of a few operators, to descriptions of kernels for any device.

``attention_chain.py``
    Scores of attention, their softmax and the product with values: three kernels as one.
``by_bfloat16.py``
    Contractions with weights in bfloat16: which these are, and the kernels that compute one.
``by_integers.py``
    Contractions of integers in 8 or 16 bits: which these are, and the two kernels of one.
``by_library.py``
    Convolutions that a kernel library computes: which these are, and what is left to do after.
``by_winograd.py``
    Convolutions by Winograd's filtering: which these are, and the two kernels that compute one.
``chains.py``
    Kernels of which one alone reads the other's result, as one that goes tile by tile.
``cutting.py``
    Cut contractions into tiles for a device, and pack their weights for these.
``described.py``
    From a kernel under construction to its description: the code is written from that alone.
``encodings.py``
    How tensors lie in memory that need not lie as they are: in bytes, or in bfloat16.
``handing.py``
    What a kernel hands to another one that alone reads it, and kernels with others' buffers.
``in_packs.py``
    Contractions of packs of input channels: weights packed so, data in few bits, written before.
``in_place.py``
    Which tensors lie in others, so that concatenations need not be computed.
``integers.py``
    Which tensors hold small integers: what is rounded and clipped, and what moves such values.
``kernel_draft.py``
    Kernels under construction: buffers are still the unit's, axes still the model's.
``layouts.py``
    How tensors lie in memory: images between units with their channels innermost.
``pixel_rows.py``
    Images whose pixels follow one another in memory are one long row of pixels.
``planner.py``
    Cut a unit into kernels: an anchor each, with what is element-wise before and after it.
``plans.py``
    The ways to cut a unit into kernels: by default, by a library, in a form, as in a tuning log.
``storing.py``
    Write a unit's values to memory: as the kernel that computes them, or as one of its own.
``unit.py``
    A unit before compilation: what it computes, and a plan that cuts it into kernels.
``unit_compiler.py``
    Compile units for any device: every kernel once, in parallel, and equal ones together.
``unit_draft.py``
    What a unit is while it is cut into kernels: buffers, kernels, and what each variable holds.
``values.py``
    The values of variables while a unit is cut into kernels: stored, pending, or expressions.
"""
