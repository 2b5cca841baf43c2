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
    """A depthwise convolution or a pooling, and a product of a single row of all pixels."""

    #: Physical shapes of the function's buffers.
    buffers: tuple[PhysicalShape, ...]
    #: The kernels, either of which may be the product.
    first: Pooling | Contraction
    second: Contraction | Pooling
    #: Rows of pixels of a tile: of all channels, or where the product is the first, of a block of
    #: its channels.
    rows: int


@dataclass(frozen=True, slots=True)
class Attention:
    """Scores of queries and keys, their softmax, and the product of that with values."""

    #: Physical shapes of the function's buffers.
    buffers: tuple[PhysicalShape, ...]
    #: The product of queries and keys; None if the scores are read from memory.
    scores: Product | None
    #: The softmax of the scores, row by row.
    softmax: Normalisation
    #: The product of the softmax's result with the values.
    values: Product
    #: Rows of queries of a tile, each with the scores of all keys.
    rows: int


#: Kernels that compute what several do.
Chained = Chain | Attention
