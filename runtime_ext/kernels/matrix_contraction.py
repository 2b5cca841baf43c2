"""Contractions by instructions that multiply matrices: of bfloat16, or of bytes."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod

from runtime_ext.kernels.spec import Contraction, PhysicalShape, Window

#: The most rows of a matrix, packs of 32 bits in one of its rows, and columns of a product.
ROWS = PACKS = COLUMNS = 16
#: Cycles of a product, even if there are fewer rows, of which each takes one. Measured.
_FEWEST_CYCLES = 9
#: Fewer pixels are multiplied as fast, or faster, as vectors.
_LEAST_PIXELS = 3


@dataclass(frozen=True, slots=True)
class MatrixContraction:
    """A contraction whose data and weights are bfloat16 or bytes, multiplied as matrices.

    The rows of a matrix of data are pixels next to each other, as far apart in memory as they are.
    What follows in memory after a pixel is a row of the matrix: channels, and where columns of the
    kernel read neighbours, theirs.

    Attributes
    ----------
    contraction
        What is computed, of one group: ``channels`` counts packs of 32 bits, ``data`` has strides
        of elements, no pixel is left out (there are no pads), and the weights lie as
        ``[block][kernel row][kernel column][pack][output channel of the block][of the pack]``.
        Of the blocking, ``pixels`` are the rows of a matrix and ``vectors`` the matrices of weights
        of a block. The data's buffer has so many pixels more than there are that the last matrix
        can be read as a whole.
    starts
        Which buffer holds, for each output channel of all blocks, the int32 that its sums begin
        with, where data are unsigned bytes and weights signed ones; None for bfloat16.
    """

    contraction: Contraction
    starts: int | None

    @property
    def buffers(self) -> tuple[PhysicalShape, ...]:
        """Physical shapes of the function's buffers."""
        return self.contraction.buffers

    @property
    def run(self) -> int:
        """Packs that follow one another in memory, in the order of the weights."""
        return run_of(self.contraction.window, self.contraction.channels)


def in_matrices(spec: Contraction) -> bool:
    """Whether a contraction is multiplied as matrices: it is of one group, and of some pixels."""
    return spec.groups == 1 and spec.batch * prod(spec.window.output) >= _LEAST_PIXELS


def run_of(window: Window, packs: int) -> int:
    """Packs of a window's columns that follow one another, of so many packs a pixel."""
    return packs * window.kernel[1] if window.dilations[1] == 1 else packs


def depth(run: int) -> int:
    """Packs of a row of a matrix: the most that divide a run of them."""
    return max(packs for packs in range(1, PACKS + 1) if run % packs == 0)


def filled_packs(window: Window, packs: int) -> int:
    """Packs of a pixel, some of them zeros, so that a window takes the fewest matrices."""

    def matrices(filled: int) -> int:
        run = run_of(window, filled)
        return prod(window.kernel) * filled // depth(run)

    return min(range(packs, packs + PACKS), key=lambda filled: (matrices(filled), filled))


def rows_of(window: Window) -> int:
    """Pixels of a matrix: those for which a row of pixels takes the fewest cycles."""
    columns = window.output[1]
    return min(
        range(1, ROWS + 1), key=lambda rows: (-(-columns // rows) * max(rows, _FEWEST_CYCLES), rows)
    )


def spare_pixels(window: Window) -> int:
    """Pixels after the last one of all images that its matrix reads too."""
    rows, columns = rows_of(window), window.output[1]
    return -columns % rows * window.strides[1]
