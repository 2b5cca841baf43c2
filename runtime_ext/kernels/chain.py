"""Kernels in one, of which each alone reads what the one before it makes: tile by tile.

What is handed on is as large as a tile and never in memory as a whole. Kernels of a chain have the
chain's buffers in the place of their own, and what is handed on counts as buffers after those.
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
        Their product; None where the scores are read from memory.
    softmax
        Of the scores, row by row.
    values
        The product of what the softmax gives with the values.
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
