"""The anchor of a layer and its tile sizes (section 4.1)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from tvm_ios.graph.operators import ANCHORS
from tvm_ios.graphturbo.box import Box
from tvm_ios.graphturbo.footprint import nbytes
from tvm_ios.graphturbo.layers import Layers

#: Loops of the anchor that are tiled: the outermost ones are parallel in every anchor.
TILED_LOOPS = 2


@dataclass(frozen=True, slots=True)
class Tiling:
    """How a layer of an instance is cut so that a tile's tensors fit the local buffer.

    Attributes
    ----------
    anchor
        The operator that is tiled; the loops of the others follow from it.
    sizes
        Extents of a tile along the outermost loops.
    tiles
        How many there are.
    nbytes
        Of what a tile reads and makes; above the buffer only if a tile of one element is.
    """

    anchor: int
    sizes: tuple[int, ...]
    tiles: int
    nbytes: int


def anchor_of(layers: Layers, layer: int) -> int:
    """The convolution or matrix product of a layer, or its last operator."""
    members = layers.members[layer]
    products = [m for m in members if layers.graph.operators[m].kind in ANCHORS | {"matmul"}]
    return products[-1] if products else members[-1]


def tile_layer(layers: Layers, layer: int, made: Mapping[int, Box], capacity: int) -> Tiling:
    """The largest divisors of the outermost loops, one after the other, whose tiles fit.

    Parameters
    ----------
    layers, layer
        Which layer.
    made
        What of its outputs an instance makes.
    capacity
        Bytes of the local buffer.
    """
    output = layers.outputs[layer][-1]
    box = made[output]
    loops = min(TILED_LOOPS, len(box))
    sizes = [1] * loops
    for loop in range(loops):
        extent = box[loop][1] - box[loop][0]
        for size in range(extent, 0, -1):
            if extent % size == 0:
                sizes[loop] = size
                if _tile_bytes(layers, layer, output, box, sizes) <= capacity:
                    break
    tiles = 1
    for loop, size in enumerate(sizes):
        tiles *= (box[loop][1] - box[loop][0]) // size
    total = _tile_bytes(layers, layer, output, box, sizes)
    return Tiling(anchor_of(layers, layer), tuple(sizes), tiles, total)


def _tile_bytes(layers: Layers, layer: int, output: int, box: Box, sizes: list[int]) -> int:
    tile = tuple(
        (begin, begin + sizes[axis]) if axis < len(sizes) else (begin, end)
        for axis, (begin, end) in enumerate(box)
    )
    read, _ = layers.needs(layer, {output: tile})
    return nbytes(layers, output, tile) + sum(nbytes(layers, t, b) for t, b in read.items())
