"""Kernels of all kinds of specs for GPUs, as TIR bound to blocks and threads.

``block_work.py``
    An estimate of a grid's time on a GPU's multiprocessors, by which tile sizes are chosen.
``build.py``
    From a kernel's spec to CUDA kernels bound to threads.
``contraction.py``
    Convolutions and products with constants: an implicit matrix product, in one kernel or two.
``contraction_shape.py``
    A contraction as a product of two matrices: its extents, and the blocks of a tile.
``gemm.py``
    A block's tile of a matrix product: slabs in shared memory, a tile of results per thread.
``gemm_estimate.py``
    An estimate of a contraction's time with a given tile.
``gemm_operands.py``
    Operands of a block's product: slabs of both matrices, copied into shared memory.
``gemm_tile.py``
    The tiles into which a contraction can be cut, and the choice of the best one.
``gemv.py``
    Products of a few vectors with a matrix: every weight is read once, by neighbouring threads.
``generic.py``
    Any operator that Relax legalises: TVM's own code, scheduled for GPUs by TVM's dlight.
``guard.py``
    Run a kernel with more threads than it has: the others only take part in its barriers.
``interpolation.py``
    Images enlarged by whole factors: a thread has a channel of an input pixel and its results.
``launches.py``
    TVM's code that is no loop nest, such as sorting: its launches as statements of the root.
``pointwise.py``
    Element-wise operators, concatenations, copies and shuffles: a thread has some neighbours.
``product.py``
    Products of two matrices that are both data, as attention has them.
``reduction.py``
    Means, softmax and layer normalisation: threads of a team reduce together in shared memory.
``split_sum.py``
    The second kernel of a contraction whose reduction is split: it adds the parts up in order.
``statements.py``
    Per-thread code that reads values, applies activations and stores them by statements.
``team_sums.py``
    The end of a product that is shared by teams of a block: they add up in shared memory.
``tensor_cores.py``
    The product of two slabs by tensor cores: a warp multiplies tiles of 16 rows by 8 columns.
``threads.py``
    Helpers for writing CUDA kernels in TIR: blocks, threads, shared memory, registers.
``window.py``
    Pooling and depthwise convolutions: a thread has some neighbouring channels and pixels.
"""
