"""Plan the kernels of a unit, a Relax function of a few operators, for any device.

``attention_chain.py``
    Fuse attention's scores, their softmax and the product with values into one kernel.
``by_bfloat16.py``
    Contractions with weights in bfloat16: which fit, and the kernels that compute one.
``by_integers.py``
    Contractions of integers in 8 or 16 bits: which fit, and the two kernels of one.
``by_library.py``
    Convolutions that a kernel library computes: which fit, and the kernel of the rest.
``by_winograd.py``
    Convolutions by Winograd's filtering: which fit, and the two kernels that compute one.
``chains.py``
    Fuse a kernel with the only reader of its result, tile by tile.
``cutting.py``
    Cut contractions into tiles for a device, and pack their weights for these.
``described.py``
    Convert drafts of kernels to descriptions, from which alone code is written.
``encodings.py``
    Choose which tensors are stored in another data type: in bytes, or in bfloat16.
``handing.py``
    Find buffers that one kernel writes and only one other reads; renumber fused buffers.
``in_packs.py``
    Contractions of packs of input channels: packed weights, and a kernel that narrows data.
``in_place.py``
    Choose which tensors are stored inside others, so that concatenations need no copies.
``integers.py``
    Infer which tensors hold small integers, as those that are rounded and clipped do.
``kernel_draft.py``
    Drafts of kernels: buffers are still the unit's, axes still the model's.
``layouts.py``
    Choose each tensor's layout: images between units have their channels innermost.
``pixel_rows.py``
    Merge the rows of images whose pixels are contiguous into one long row of pixels.
``placed.py``
    A kernel of a unit being planned, and where its buffers are.
``planner.py``
    Draft a unit's kernels: an anchor each, with element-wise operators before and after it.
``plans.py``
    Plans of a unit: the default, by a library, in another form, from a tuning log.
``storing.py``
    Write a unit's values to memory: in the kernel that computes them, or in a new one.
``unit.py``
    A unit before compilation: its function, and a plan that cuts it into kernels.
``unit_compiler.py``
    Compile units for any device: each kernel once, in parallel.
``unit_draft.py``
    The state of a unit being planned: buffers, kernels, and the value of each variable.
``values.py``
    Values of variables while a unit is planned: stored, pending, or expressions.
"""
