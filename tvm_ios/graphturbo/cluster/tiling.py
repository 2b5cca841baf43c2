"""Tiles of layers in the local buffer (section 4.1), of several layers at once (4.2)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from math import prod

from tvm_ios.graph.op_graph import mask_of
from tvm_ios.graph.operators import ANCHORS
from tvm_ios.graphturbo.box import Box
from tvm_ios.graphturbo.dimensions import Dimensions
from tvm_ios.graphturbo.footprint import exits, nbytes, part_of
from tvm_ios.graphturbo.layers import Layers

#: Shares of the local buffer (assumed; the paper has "a small, fixed size" for weights): what
#: weights pass through, and what tiles take. Tensors that stay have what tiles leave.
WEIGHT_SHARE, TILE_SHARE = 1 / 8, 5 / 8


@dataclass(frozen=True, slots=True)
class Tiling:
    """A way to compute a run of layers tile by tile.

    Neighbouring tiles keep the rows that the windows of both reach, so that nothing is computed or
    fetched twice.
    """

    #: The layers, which follow each other.
    run: tuple[int, ...]
    #: The axes of the last output that are tiled, outermost first, and a tile's extent along each.
    loops: tuple[tuple[int, int], ...]
    #: The number of tiles.
    tiles: int
    #: How often all weights pass through the local buffer, and all inputs of the run: the order of
    #: the loops decides which of the two passes more than once.
    weight_passes: int
    input_passes: int
    #: Bytes of the local buffer; if there are several tiles, with the inputs of the next one and
    #: the outputs of the last one.
    nbytes: int
    #: Whether that is no more than the tiles' share; not even the smallest tile may fit.
    fits: bool
    #: For each tensor the box that a middle tile reads or makes.
    boxes: Mapping[int, Box]


@dataclass(frozen=True)
class Tiler:
    """A finder of tiles for runs of layers, given the bytes of a cluster's local buffers."""

    layers: Layers
    dimensions: Dimensions
    local_buffer: int
    _tiled: dict[tuple[tuple[int, ...], tuple[tuple[int, Box], ...]], Tiling | None] = field(
        default_factory=dict[tuple[tuple[int, ...], tuple[tuple[int, Box], ...]], "Tiling | None"],
        repr=False,
        compare=False,
    )

    @property
    def weight_buffer(self) -> int:
        """Bytes of the buffer that weights pass through."""
        return int(self.local_buffer * WEIGHT_SHARE)

    def tile(self, run: tuple[int, ...], made: Mapping[int, Box]) -> Tiling | None:
        """Return the largest tiles that fit; of several orders of loops, those of least traffic.

        Loop by loop the largest extent is taken that divides the loop's and lets the tile fit;
        where none does, the extent is one, and the next loop is cut too. Section 4.1 cuts the two
        outermost loops; if that is not enough, further ones are cut here.

        ``made`` is the instance's box of each tensor. Return None if several layers have no tile
        that fits; a layer alone always has one.
        """
        outputs = {t: made[t] for t in exits(self.layers, mask_of(run)) if t in made}
        key = run, tuple(outputs.items())
        if key not in self._tiled:
            ways = [self._cut(run, made, outputs, o) for o in self._orders(run, outputs)]
            best = min(ways, key=lambda way: self._preference(way, made))
            self._tiled[key] = best if best.fits or len(run) == 1 else None
        return self._tiled[key]

    def traffic(self, tiling: Tiling, made: Mapping[int, Box]) -> int:
        """Return the bytes between the local buffers and those further away, for all tiles."""
        layers = self.layers
        mask = mask_of(tiling.run)
        written = [t for t in exits(layers, mask) if t in made]
        return (
            self.weights(tiling.run) * tiling.weight_passes
            + self._read(tiling.run, made) * tiling.input_passes
            + sum(nbytes(layers, t, made[t]) for t in written)
        )

    def weights(self, run: Sequence[int]) -> int:
        """Return the bytes of the constants of some layers."""
        return sum(self.layers.weight_bytes[layer] for layer in run)

    def _weight_axis(self, run: Sequence[int], output: int) -> int:
        """Return the axis of a layer's output whose tiles need different weights, or -1."""
        graph = self.layers.graph
        for op in reversed(self.layers.members[run[0]] if len(run) == 1 else ()):
            operator = graph.operators[op]
            if operator.kind in ANCHORS | {"matmul"}:
                made = operator.outputs[0]
                axis = 1 if operator.kind.startswith("conv") else len(graph.tensors[made].shape) - 1
                matching = self.dimensions.matching_axis(self.dimensions.of(made)[axis], output)
                return -1 if matching is None else matching
        return -1

    def _read(self, run: Sequence[int], made: Mapping[int, Box]) -> int:
        """Return the bytes that some layers read from outside."""
        mask = mask_of(run)
        read = {t for n in run for t in self.layers.inputs[n] if t in made}
        return sum(nbytes(self.layers, t, made[t]) for t in read if not self._inside(t, mask))

    def _preference(self, tiling: Tiling, made: Mapping[int, Box]) -> tuple[bool, int, int]:
        return not tiling.fits, self.traffic(tiling, made), tiling.tiles

    def _orders(self, run: Sequence[int], outputs: Mapping[int, Box]) -> Iterator[tuple[int, ...]]:
        """Yield orders of loops to cut: the axes' own, inputs first, the weights' loop anywhere."""
        dimensions = self.dimensions
        main = list(outputs)[-1]
        mask = mask_of(run)
        inner = [t for n in run for t in self.layers.outputs[n]] if len(run) > 1 else []
        read = [t for n in run for t in self.layers.inputs[n] if not self._inside(t, mask)]
        axes = [
            axis
            for axis, dimension in enumerate(dimensions.of(main))
            if all(dimensions.matching_axis(dimension, t) is not None for t in (*outputs, *inner))
        ]
        cutting = [
            axis
            for axis in axes
            if any(dimensions.matching_axis(dimensions.of(main)[axis], t) is not None for t in read)
        ]
        own = self._weight_axis(run, main)
        orders = [tuple(axes), (*cutting, *(axis for axis in axes if axis not in cutting))]
        if own in axes:
            others = tuple(axis for axis in axes if axis != own)
            orders += [(*others[:place], own, *others[place:]) for place in range(len(others) + 1)]
        yield from dict.fromkeys(orders)

    def _cut(
        self,
        run: tuple[int, ...],
        made: Mapping[int, Box],
        outputs: Mapping[int, Box],
        order: Sequence[int],
    ) -> Tiling:
        box = outputs[list(outputs)[-1]]
        tiling = self._tiling(run, made, outputs, {})
        sizes: dict[int, int] = {}
        for axis in order:
            if tiling.fits:
                break
            sizes, tiling = self._largest(run, made, outputs, sizes, axis, box)
        # Axes that were cut first may have larger tiles now that others are cut.
        for axis in list(sizes)[:-1]:
            sizes, tiling = self._largest(run, made, outputs, sizes, axis, box)
        return tiling

    def _largest(
        self,
        run: tuple[int, ...],
        made: Mapping[int, Box],
        outputs: Mapping[int, Box],
        sizes: Mapping[int, int],
        axis: int,
        box: Box,
    ) -> tuple[dict[int, int], Tiling]:
        """Cut an axis to the largest divisor of its extent for which tiles fit, or to one."""
        extent = box[axis][1] - box[axis][0]
        cut = {a: size for a, size in sizes.items() if a != axis}
        tiling = self._tiling(run, made, outputs, cut)
        for size in (s for s in range(extent - 1, 0, -1) if extent % s == 0):
            if tiling.fits:
                break
            cut[axis] = size
            tiling = self._tiling(run, made, outputs, cut)
        return cut, tiling

    def _tiling(
        self,
        run: tuple[int, ...],
        made: Mapping[int, Box],
        outputs: Mapping[int, Box],
        sizes: Mapping[int, int],
    ) -> Tiling:
        layers = self.layers
        main = list(outputs)[-1]
        counts = {a: (outputs[main][a][1] - outputs[main][a][0]) // s for a, s in sizes.items()}
        tiles = prod(counts.values())
        owned = {tensor: self._middle(main, tensor, box, counts) for tensor, box in outputs.items()}
        mask = mask_of(run)
        work = part_of(layers, mask, owned)
        taken = work.peak
        if tiles > 1:
            for tensor, box in work.boxes.items():
                new = nbytes(layers, tensor, made[tensor]) // tiles
                if tensor in outputs or not self._inside(tensor, mask):
                    taken += new  # of the next tile, which is loaded meanwhile, or of the last one
                else:  # What windows of neighbouring tiles share stays.
                    taken += max(0, nbytes(layers, tensor, box) - new)
        passes = 1, 1
        weights = self.weights(run)
        if weights > self.weight_buffer:
            slices = counts.get(self._weight_axis(run, main), 1)
            # The loop over slices of the weights is the innermost one, or the outermost.
            ways = [(tiles // slices, 1), *([(1, slices)] if slices > 1 else [])]
            read = self._read(run, made)
            passes = min(ways, key=lambda way: weights * way[0] + read * way[1])
        # A tile along the axis of a concatenation may need nothing of some layers.
        complete = all(any(t in work.boxes for t in layers.outputs[layer]) for layer in run)
        fits = complete and taken <= self.local_buffer * TILE_SHARE
        loops = tuple(sorted(sizes.items()))
        return Tiling(run, loops, tiles, *passes, taken, fits, work.boxes)

    def _middle(self, main: int, tensor: int, box: Box, counts: Mapping[int, int]) -> Box:
        """Return the box that a middle tile makes of an output."""
        middle = list(box)
        for axis, count in counts.items():
            matching = self.dimensions.matching_axis(self.dimensions.of(main)[axis], tensor)
            other = axis if matching is None else matching
            begin, end = box[other]
            size = max(1, (end - begin) // count)
            begin = min(begin + size * (count // 2), end - size)
            middle[other] = (begin, begin + size)
        return tuple(middle)

    def _inside(self, tensor: int, run: int) -> bool:
        maker = self.layers.maker(tensor)
        return maker is not None and bool(run >> maker & 1)
