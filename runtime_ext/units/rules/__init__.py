"""Rules that turn operators into kernels: a function an operator, listed in ``registry.py``.

``attention.py``
    Rules of attention's operators: products of data, softmax, layer normalisation.
``concat.py``
    Concatenations: every operand is written into its slice of the result.
``contractions.py``
    Convolutions and products with constant weights, as contractions.
``fusing.py``
    Fuse element-wise operators: into the kernel that makes an operand, or with one another.
``generic.py``
    Any operator as a kernel of TVM's, whose buffers are whole and in the IR's layout.
``pooling.py``
    Pools and means over windows of pixels, over all pixels, and over neighbouring channels.
``reading.py``
    An anchor's input: its access, element-wise prologue and padding.
``registry.py``
    The rule of each operator; those without, or that it does not fit, are compiled by TVM.
``resize.py``
    Resizes by whole factors, as interpolations between fixed neighbours.
``shuffle.py``
    Channel shuffles: a reshape, a transpose and a reshape that interleave groups of channels.
``views.py``
    Operators that move data without computing: slices, splits, padding, reshapes, joins.
"""
