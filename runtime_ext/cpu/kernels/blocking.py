"""Choose a contraction's register tile (analytic; nothing is measured)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from math import ceil, gcd

from runtime_ext.isa.isa import Isa
from runtime_ext.kernels.cut import Blocking
from runtime_ext.kernels.open_shapes import is_same
from runtime_ext.kernels.spec import Contraction
from tvm_ios.shapes.extent import at_hint, bounds, is_open

#: The latency of a multiply-add in cycles, times multiply-adds a cycle.
_IN_FLIGHT = 8
#: A tile of at least this many vectors is crowded if it leaves fewer than this many registers.
_MANY, _SPARE = 3, 3
#: Up to this many input channels (a first layer's) are unrolled together with the kernel's columns.
#: Tiles then have at most this many sums on x86: the code of more would no longer fit the cache of
#: decoded instructions.
UNROLLED, _SHORT = 4, 12
#: The numbers of vectors of output channels that a block of a matrix-vector product may have.
_VECTOR_BLOCKS = range(1, 9)
#: A row whose last tile is no smaller than the others for most tiles.
_MANY_PIXELS = 840
#: Rows of images of at least this many pixels are cut one by one.
_WIDE = 16
#: Widths of a range that are looked at, less one.
_WIDTHS = 12
#: Register tiles of more pixels than this have smaller ones beside them.
_NARROW = 3
#: Register tiles of fewer pixels have tiles of little more than half for narrow rows.
_MANY_SIZES = 8
#: Sets of a first-level data cache of 64-byte lines, and the lines of a set that stay.
_SETS, _WAYS = 64, 8


def choose_blocking(spec: Contraction, isa: Isa) -> Blocking:
    """Return the register tile with the fewest estimated cycles for a row of pixels."""
    width = spec.window.output[1]
    if is_open(width) and has_rows(spec):
        return _for_widths(at_hint(spec), isa, *bounds(width))
    spec = _at_one_shape(spec)
    width = spec.window.output[1]
    if width == 1:
        # A matrix-vector product waits for memory: make blocks long, and reads sequential.
        narrowest, whole = (ceil(n / isa.lanes) for n in (min(spec.parts), sum(spec.parts)))
        return Blocking(1, min(_VECTOR_BLOCKS[-1], narrowest, ceil(whole / 8)))
    cycles = row_cycles(spec, isa)
    return min(cycles, key=lambda t: (cycles[t], -t.pixels * t.vectors, t.vectors))


def has_rows(spec: Contraction) -> bool:
    """Return whether a contraction of open extents is cut row by row, like a convolution.

    Otherwise the pixels of all images are rows of a matrix.
    """
    window = spec.window
    plain = ((1, 1), (1, 1), (0, 0), (1, 1))
    if (window.kernel, window.strides, window.pads, window.dilations) != plain:
        return True
    if spec.groups > 1 or not is_same(window.input[0], window.output[0]):
        return True
    is_one = is_same(spec.batch * window.output[0], 1)
    return not is_one and bounds(window.output[1])[0] >= _WIDE


def _for_widths(spec: Contraction, isa: Isa, least: int, most: int) -> Blocking:
    """Return the register tile with the fewest cycles a pixel for rows of any of these widths."""
    total: dict[Blocking, float] = {}
    ratio = (max(most, 2) / max(least, 2)) ** (1 / _WIDTHS)
    for number in range(_WIDTHS + 1):
        width = round(max(least, 2) * ratio**number)
        window = replace(spec.window, output=(spec.window.output[0], width))
        for tile, cycles in row_cycles(replace(spec, window=window), isa, _open_tiles).items():
            total[tile] = total.get(tile, 0.0) + cycles / width
    return min(total, key=lambda t: (round(total[t], 6), -t.pixels * t.vectors, t.vectors))


def _open_tiles(width: int, pixels: int) -> dict[int, int]:
    """Return the tiles of a row of open width, as of :class:`OpenRow`: how many of which size."""
    sizes = open_sizes(pixels)
    size = next((size for size in sizes if width >= size + size // 2), 1)
    return {size: ceil(width / size)}


def open_sizes(pixels: int) -> list[int]:
    """Return the sizes of the register tiles of rows of open width, the largest first."""
    half = pixels // 2 + (1 if pixels < _MANY_SIZES else 0)
    return [pixels, *([half] if half > _NARROW else []), *([2] if pixels > _NARROW else [])]


def _tiles(width: int, pixels: int) -> dict[int, int]:
    """Return the tiles of a row: how many of which size."""
    whole, remainder = divmod(width, pixels)
    return {pixels: whole} | ({remainder: 1} if remainder else {})


def _at_one_shape(spec: Contraction) -> Contraction:
    """Return a contraction with a row of many pixels if their number is open."""
    known, (_, width) = at_hint(spec), spec.window.output
    if not is_open(width):
        return known
    (rows, _), window = known.window.output, known.window
    window = replace(window, input=(window.input[0], _MANY_PIXELS), output=(rows, _MANY_PIXELS))
    return replace(known, window=window)


def row_cycles(
    spec: Contraction, isa: Isa, tiles_of: Callable[[int, int], dict[int, int]] | None = None
) -> dict[Blocking, float]:
    """Estimate the cycles of a row of pixels for each register tile that fits the registers.

    Registers hold the tile's sums, a row of weights and one input, or a vector of each pixel. For
    a single pixel, cycles are the vectors of weights that are read. ``tiles_of`` returns how many
    tiles of which size a row of a width has, by default as many as possible of the given size and
    a smaller one.
    """
    width = spec.window.output[1]
    if width == 1:
        blocks = {v: sum(ceil(n / (v * isa.lanes)) for n in spec.parts) for v in _VECTOR_BLOCKS}
        return {
            Blocking(1, v): float(v * n) for v, n in blocks.items() if 2 * v + 1 <= isa.registers
        }
    depth = spec.channels * spec.window.kernel[0] * spec.window.kernel[1]
    together = isa.words if spec.channels >= isa.words else 1
    pixel_bytes = abs(spec.data.strides[2]) * spec.window.strides[1] * 4

    def cycles(tile: Blocking) -> float:
        blocks = sum(ceil(part / (tile.vectors * isa.lanes)) for part in spec.parts)
        weights = depth * tile.vectors * isa.lanes * 4
        waiting = isa.weight_cycles * tile.vectors if weights > isa.near_bytes else 0.0
        row = 0.0
        for size, count in (tiles_of or _tiles)(width, tile.pixels).items():
            row += count * max(waiting, _tile_cycles(size, tile.vectors, together, isa.pixels))
        if weights > isa.block_bytes:
            row *= 1.4
        spare = spare_registers(tile, isa)
        if tile.vectors >= _MANY and spare < _SPARE:
            row *= isa.crowding
        if _lines_a_set(min(width, tile.pixels), pixel_bytes) > _WAYS:
            row *= 1.2
        return round(row * blocks, 3)

    tiles = [
        Blocking(pixels, vectors)
        for vectors in range(1, 7)
        for pixels in range(1, min(28, most_pixels(vectors, isa)) + 1)
        if spec.channels > UNROLLED or vectors * pixels <= _SHORT or isa.by_element
    ]
    return {tile: cycles(tile) for tile in tiles}


def spare_registers(tile: Blocking, isa: Isa) -> int:
    """Return the registers that a tile leaves unused; negative if it needs too many."""
    pixels = ceil(tile.pixels / isa.pixels) * isa.pixels
    # Vectors of several pixels' words are made of those of each.
    data = pixels * (1 + isa.pixels) // 2 + 1 if isa.by_element else 1
    return isa.registers - pixels * tile.vectors - tile.vectors * isa.pixels - data


def most_pixels(vectors: int, isa: Isa) -> int:
    """Return the most pixels of a tile of so many vectors that fits the registers."""
    fitting = (
        p for p in range(isa.registers, 0, -1) if spare_registers(Blocking(p, vectors), isa) >= 0
    )
    return next(fitting, 0)


def _tile_cycles(pixels: int, vectors: int, together: int, shared: int) -> float:
    """Estimate cycles for one input channel: two multiply-adds or loads each, plus latency.

    ``together`` channels of a pixel are loaded at once, and so many pixels ``shared`` a register.
    """
    pixels = ceil(pixels / shared) * shared
    work = max(pixels * vectors, _IN_FLIGHT) / 2
    loads = (pixels / together + vectors * shared) / 2
    return max(work, 1.1 * loads) + 0.1 * loads + 0.5


def _lines_a_set(pixels: int, pixel_bytes: int) -> int:
    """Return how many cache lines of one tile's pixels compete for the same set."""
    if pixel_bytes % 64:
        return 1
    sets = _SETS // gcd(_SETS, pixel_bytes // 64)
    return ceil(pixels / sets)
