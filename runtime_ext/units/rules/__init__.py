"""Which kernels an operator becomes: a function an operator, listed in ``registry.py``.

``attention.py``
    Rules of what attention is made of: products of data, softmax, layer normalisation.
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
    How an anchor reads its input: from memory, activated on the way, without what is padding.
``registry.py``
    Which rule makes kernels of which operator; what has none, or does not fit it, is TVM's
    code.
``resize.py``
    Which resizes are interpolations by whole factors, and what each result is between.
``shuffle.py``
    Channel shuffles: a reshape, a transpose and a reshape that interleave groups of channels.
``views.py``
    Operators that move data without computing: slices, splits, padding, reshapes, joins.
"""
