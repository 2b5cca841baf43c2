"""Contractions of packs of channels in 8 or 16 bits, by instructions on vectors or on matrices."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod

from runtime_ext.kernels.cut import largest_divisor
from runtime_ext.kernels.expression import Access, Expr
from runtime_ext.kernels.spec import Contraction, PhysicalShape, Window

#: The most rows of a matrix, packs of 32 bits in one of its rows, and columns of a product.
ROWS = PACKS = COLUMNS = 16
#: Measured cycles of a product: one a row, but at least this many.
_FEWEST_CYCLES = 9
#: Fewer pixels are multiplied as fast, or faster, by vectors.
_LEAST_PIXELS = 3


@dataclass(frozen=True, slots=True)
class Narrowing:
    """Images encoded in 8 or 16 bits, their channels filled up with zeros to whole packs."""

    #: Physical shapes of the image's buffer, and of the result ``[image][row][column][channel]``,
    #: which is encoded.
    buffers: tuple[PhysicalShape, ...]
    #: Extents; ``pixels`` are rows and columns of the result, ``channels`` those of the image.
    batch: int
    pixels: tuple[int, int]
    channels: int
    #: The image; ``prologue`` is applied to what is read.
    data: Access

    prologue: Expr
    #: Rows above and columns left of the image; negative ones are not read.
    pads: tuple[int, int]
    #: Rows and columns of the image; where the result has more, it holds zeros.
    source_pixels: tuple[int, int]


@dataclass(frozen=True, slots=True)
class PackedContraction:
    """A contraction of packs of channels; subclasses define the types of its numbers."""

    contraction: Contraction

    @property
    def buffers(self) -> tuple[PhysicalShape, ...]:
        """Physical shapes of the function's buffers."""
        return self.contraction.buffers


@dataclass(frozen=True, slots=True)
class MatrixContraction(PackedContraction):
    """A contraction whose data and weights are bfloat16 or bytes, multiplied as matrices.

    The rows of a matrix of data are pixels next to each other, as far apart in memory as they are.
    A row reads on in memory from its pixel: the pixel's channels and, where columns of the kernel
    read neighbours, the neighbours' channels.

    Attributes
    ----------
    contraction
        The contraction, of one group: ``channels`` counts packs of 32 bits, ``data`` has strides
        of elements, no pixel is left out (there are no pads), and the weights lie as
        ``[block][kernel row][kernel column][pack][output channel of the block][of the pack]``.
        Of the blocking, ``pixels`` are the rows of a matrix and ``vectors`` the matrices of weights
        of a block. The data's buffer has spare pixels at its end, so that the last matrix can be
        read as a whole.
    starts
        The buffer that holds, for each output channel of all blocks, the int32 that its sums begin
        with, where data are unsigned bytes and weights signed ones; None for bfloat16.
    """

    starts: int | None

    @property
    def run(self) -> int:
        """Number of packs that are contiguous in memory, in the order of the weights."""
        return run_of(self.contraction.window, self.contraction.channels)


def in_matrices(spec: Contraction) -> bool:
    """Return whether a contraction has one group and enough pixels to multiply matrices."""
    return spec.groups == 1 and spec.batch * prod(spec.window.output) >= _LEAST_PIXELS


def run_of(window: Window, packs: int) -> int:
    """Return the contiguous packs of a window's columns, given the packs of a pixel."""
    return packs * window.kernel[1] if window.dilations[1] == 1 else packs


def depth(run: int) -> int:
    """Return the packs of a row of a matrix: the most that divide a run of them."""
    return largest_divisor(run, PACKS)


def filled_packs(window: Window, packs: int) -> int:
    """Return the packs of a pixel, with padding, for which a window takes the fewest matrices."""

    def matrices(filled: int) -> int:
        run = run_of(window, filled)
        return prod(window.kernel) * filled // depth(run)

    return min(range(packs, packs + PACKS), key=lambda filled: (matrices(filled), filled))


def rows_of(window: Window) -> int:
    """Return the pixels of a matrix for which a row of pixels takes the fewest cycles."""
    columns = window.output[1]
    return min(
        range(1, ROWS + 1), key=lambda rows: (-(-columns // rows) * max(rows, _FEWEST_CYCLES), rows)
    )


def spare_pixels(window: Window) -> int:
    """Return how many pixels after the last one of all images its matrix reads too."""
    rows, columns = rows_of(window), window.output[1]
    return -columns % rows * window.strides[1]
