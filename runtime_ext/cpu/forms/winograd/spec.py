"""A convolution by Winograd's filtering, as the two kernels that compute it: plain data.

The first one transforms tiles of the input, which overlap; the second one multiplies these by the
transformed weights, at each of a tile's positions by itself, and transforms what results into a
tile of outputs.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import prod

from runtime_ext.kernels.expression import Access, Expr
from runtime_ext.kernels.spec import PhysicalShape, Statement, Window
from tvm_ios.program.winograd import Filtering, filterings
from tvm_ios.shapes.extent import ceil_div


@dataclass(frozen=True, slots=True)
class WinogradTiles:
    """The cut of a convolution into tiles.

    ``channels`` are those of the input. A tile has ``outputs`` results along each axis where the
    filter has more than one tap; ``block`` tiles are stored together: ``[block][position][tile of
    the block][channel]``.
    """

    batch: int
    window: Window
    channels: int
    outputs: int
    block: int

    @property
    def filterings(self) -> tuple[Filtering, Filtering]:
        """Filterings of rows and of columns."""
        rows, columns = filterings(self.outputs, self.window.kernel)
        return rows, columns

    @property
    def extent(self) -> tuple[int, int]:
        """Rows and columns of a tile of outputs."""
        rows, columns = self.filterings
        return rows.outputs, columns.outputs

    @property
    def size(self) -> tuple[int, int]:
        """Rows and columns of a tile of inputs, and of its products."""
        rows, columns = self.filterings
        return rows.size, columns.size

    @property
    def grid(self) -> tuple[int, int]:
        """Rows and columns of tiles of an image."""
        (height, width), (rows, columns) = self.window.output, self.extent
        return ceil_div(height, rows), ceil_div(width, columns)

    @property
    def tiles(self) -> int:
        """Tiles of all images."""
        return self.batch * self.grid[0] * self.grid[1]

    @property
    def blocks(self) -> int:
        """Blocks of tiles; the last may be shorter."""
        return ceil_div(self.tiles, self.block)

    @property
    def positions(self) -> int:
        """Products of a tile for each pair of channels."""
        return prod(self.size)

    @property
    def shape(self) -> PhysicalShape:
        """Physical shape of the transformed input."""
        return (self.blocks, self.positions, self.block, self.channels)

    @property
    def reading(self) -> Window:
        """The window by which tiles read the input, as if they were a convolution's outputs."""
        return replace(self.window, output=self.grid, kernel=self.size, strides=self.extent)


@dataclass(frozen=True, slots=True)
class WinogradInput:
    """The kernel that transforms the input's tiles.

    ``buffers`` are the physical shapes of the input and of the transformed tiles; ``prologue`` is
    applied to elements of ``data`` as they are read (``acc`` stands for them).
    """

    buffers: tuple[PhysicalShape, ...]
    tiles: WinogradTiles
    data: Access
    prologue: Expr


@dataclass(frozen=True, slots=True)
class WinogradOutput:
    """The kernel that multiplies tiles at each position and transforms the products to outputs."""

    #: Physical shapes of the function's buffers.
    buffers: tuple[PhysicalShape, ...]

    tiles: WinogradTiles
    #: The buffer of the transformed input.
    data: int
    #: The buffer of the packed weights ``[block][row][column][input channel][output channel of the
    #: block]`` of a tile's positions.
    weight: int
    #: As of :class:`~runtime_ext.kernels.spec.Contraction`.
    parts: tuple[int, ...]
    #: The register tile of a product: tiles by vectors of output channels.
    rows: int
    vectors: int
    #: The statements that store an output (``acc``).
    statements: tuple[Statement, ...]


@dataclass(frozen=True, slots=True)
class WinogradConvolution:
    """The kernel that does the work of both, a block of tiles after another.

    The transformed tiles of a block stay in the caches of the lane that multiplies them. Fields are
    those of :class:`WinogradInput` and :class:`WinogradOutput`.
    """

    buffers: tuple[PhysicalShape, ...]
    tiles: WinogradTiles
    data: Access
    prologue: Expr
    weight: int
    parts: tuple[int, ...]
    rows: int
    vectors: int
    statements: tuple[Statement, ...]
