"""Contractions of packs of channels, whose products one instruction adds up: in 8 or 16 bits."""

from __future__ import annotations

from dataclasses import dataclass

from runtime_ext.kernels.expression import Access, Expr
from runtime_ext.kernels.matrix_contraction import MatrixContraction
from runtime_ext.kernels.spec import Contraction, PhysicalShape


@dataclass(frozen=True, slots=True)
class Narrowing:
    """Images encoded in 8 or 16 bits, their channels filled up with zeros to whole packs.

    Attributes
    ----------
    buffers
        Physical shapes of the image's buffer, and of the result
        ``[image][row][column][channel]``, which is encoded.
    batch, pixels, channels
        Extents; ``pixels`` are rows and columns of the result, ``channels`` those of the image.
    data
        The image; ``prologue`` is applied to what is read.
    pads
        Rows above and columns left of the image; negative ones are not read.
    source_pixels
        Rows and columns of the image; where the result has more, it holds zeros.
    """

    buffers: tuple[PhysicalShape, ...]
    batch: int
    pixels: tuple[int, int]
    channels: int
    data: Access
    prologue: Expr
    pads: tuple[int, int]
    source_pixels: tuple[int, int]


@dataclass(frozen=True, slots=True)
class IntegerContraction:
    """A contraction whose data and weights are integers in 16 or 8 bits; sums are int32.

    Attributes
    ----------
    contraction
        What is computed, in pairs of input channels: ``channels`` counts pairs, ``data`` has
        their strides in elements of 16 bits, and a weight is a pair of them, one after another.
        Statements read and write float32; the value that they begin with is the exact sum.
    starts
        Which buffer holds, for each output channel of all blocks, the int32 that its sums begin
        with. Then there are four channels in the place of two, data unsigned in 8 bits, weights
        signed. None for those in 16 bits, whose sums begin with zero.
    """

    contraction: Contraction
    starts: int | None = None

    @property
    def buffers(self) -> tuple[PhysicalShape, ...]:
        """Physical shapes of the function's buffers."""
        return self.contraction.buffers


@dataclass(frozen=True, slots=True)
class Bfloat16Contraction:
    """A contraction whose weights are the upper halves of float32.

    Attributes
    ----------
    contraction
        What is computed. The weights lie as
        ``[block][kernel row][kernel column][pair][output channel of the block][of the pair]``,
        the second of an odd number of channels zero, their bits as ``uint16``.
    rounded
        Whether the data are bfloat16 too, and one instruction multiplies pairs: ``channels`` then
        counts pairs, and ``data`` has the strides of elements of 16 bits. Otherwise data are
        float32, and weights become float32 in registers.
    """

    contraction: Contraction
    rounded: bool

    @property
    def buffers(self) -> tuple[PhysicalShape, ...]:
        """Physical shapes of the function's buffers."""
        return self.contraction.buffers


#: A kernel of a contraction of packs, by vectors or as matrices, or of one with narrow weights.
PackedKernel = Narrowing | IntegerContraction | Bfloat16Contraction | MatrixContraction
