"""A convolution as a product of matrices: all that the time of its CUDA kernels depends on."""

from __future__ import annotations

from dataclasses import dataclass

#: Up to so many rows are products of vectors.
VECTOR_ROWS = 4


@dataclass(frozen=True, slots=True)
class MatrixProduct:
    """The product of a matrix of pixels and one of weights."""

    #: Output pixels of all images.
    rows: int
    #: Output channels that are packed together: those of each group, or of each output of a split.
    parts: tuple[int, ...]
    #: The length of the reduction.
    depth: int
    #: Elements of the pixels' tensor.
    elements: int
    #: Whether a thread can read four channels of a pixel at once.
    wide: bool
    #: Whether windows reach beyond the input anywhere.
    bordered: bool
    #: Whether there are so few rows that reading the weights dominates.
    vectors: bool
    #: Of each store its channels, and how many neighbours a thread can store at once.
    stores: tuple[tuple[int, int], ...]

    @property
    def columns(self) -> int:
        """Output channels of all parts."""
        return sum(self.parts)
