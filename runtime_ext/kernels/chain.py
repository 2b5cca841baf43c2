"""Fused kernels, each the only reader of the result of the one before it: plain data.

They run tile by tile; intermediate results are as large as a tile and never in memory as a whole.
Fused kernels number the chain's buffers instead of their own, and intermediate results count as
buffers after those.
"""

from __future__ import annotations

from dataclasses import dataclass

from runtime_ext.kernels.spec import Contraction, Normalisation, PhysicalShape, Pooling, Product


@dataclass(frozen=True, slots=True)
class Chain:
    """A depthwise convolution or a pooling, and a product of a single row of all pixels.

    Attributes
    ----------
    buffers
        Physical shapes of the function's buffers.
    first, second
        The kernels, either of which may be the product.
    rows
        Rows of pixels of a tile: of all channels, or where the product is the first, of a block
        of its channels.
    """

    buffers: tuple[PhysicalShape, ...]
    first: Pooling | Contraction
    second: Contraction | Pooling
    rows: int


@dataclass(frozen=True, slots=True)
class Attention:
    """Scores of queries and keys, their softmax, and the product of that with values.

    Attributes
    ----------
    buffers
        Physical shapes of the function's buffers.
    scores
        The product of queries and keys; None if the scores are read from memory.
    softmax
        The softmax of the scores, row by row.
    values
        The product of the softmax's result with the values.
    rows
        Rows of queries of a tile, each with the scores of all keys.
    """

    buffers: tuple[PhysicalShape, ...]
    scores: Product | None
    softmax: Normalisation
    values: Product
    rows: int


#: Kernels that compute what several do.
Chained = Chain | Attention
