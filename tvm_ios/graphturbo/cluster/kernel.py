"""An instance as a kernel: runs of layers, the cores of each layer, and the work of a tile."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from tvm_ios.devices.memory_hierarchy import MemoryHierarchy
from tvm_ios.graph.op_graph import bits, mask_of
from tvm_ios.graph.operators import ANCHORS
from tvm_ios.graphturbo.box import Box
from tvm_ios.graphturbo.cluster.binding import (
    Binding,
    divides,
    infer_binding,
    main_output,
    plain_binding,
)
from tvm_ios.graphturbo.cluster.tiling import Tiler, Tiling
from tvm_ios.graphturbo.footprint import exits, nbytes
from tvm_ios.graphturbo.instances import Instances


@dataclass(frozen=True, slots=True)
class LayerTask:
    """The work of one tile of a layer."""

    layer: int
    #: Floating-point operations of convolutions and products, and of all other operators.
    matrix_flops: float
    vector_flops: float
    #: Bytes that it reads from the local buffer and writes there.
    nbytes: int
    #: For each tensor that other runs make, or read, the bytes of a tile.
    loads: Mapping[int, int]
    stores: Mapping[int, int]
    #: For each tensor that it reads, bytes that lie with other cores, if it is in local buffers.
    exchanged: Mapping[int, int]
    #: Bytes of its constants.
    weights: int
    #: The cores along each axis of the tile.
    binding: Binding

    @property
    def cores(self) -> int:
        """The number of cores that compute it."""
        return math.prod(self.binding)


@dataclass(frozen=True)
class Kernel:
    """An instance, to be cut into runs of layers for the local buffers of a device.

    ``bound`` is the binding of the instance's output. ``overlapping`` says whether instructions of
    different layers will overlap.
    """

    instances: Instances
    number: int
    tiler: Tiler
    device: MemoryHierarchy
    bound: Binding
    overlapping: bool

    def runs(self, most: int | None) -> list[tuple[Tiling, tuple[LayerTask, ...]]]:
        """Return runs of at most ``most`` layers, each with a tile of each layer.

        If it is None, runs are the longest of which any tile fits, whatever time they take.
        """
        instance = self.instances.instances[self.number]
        subgraph = self.instances.subgraphs[instance.subgraph].layers
        seconds = self._seconds if most else _no_seconds
        most = most or subgraph.bit_count()
        tilings = stitch(self.tiler, subgraph, instance.work.boxes, seconds, most)
        home = {layer: tiling for tiling in tilings for layer in tiling.run}
        bind = self._bind(home)
        return [(t, tuple(self._task(layer, t, bind) for layer in t.run)) for t in tilings]

    def _seconds(self, tiling: Tiling) -> float:
        """Estimate the seconds of a run whose tensors are in the global buffer."""
        made = self.instances.instances[self.number].work.boxes
        device, matrix, vector = self.device, 0.0, 0.0
        for layer in tiling.run:
            for_matrix, for_vector = self._flops(layer, made)
            matrix += for_matrix
            vector += for_vector
        engines = (
            self.tiler.traffic(tiling, made) / device.global_bandwidth,
            matrix * device.clusters / device.peak_flops,
            vector * device.clusters / device.vector_flops,
        )
        longest, together = max(engines), sum(engines)
        if self.overlapping:
            return longest
        # Only tiles of the same layer overlap.
        return longest + (together - longest) / (tiling.tiles if len(tiling.run) == 1 else 1)

    def _flops(self, layer: int, made: Mapping[int, Box]) -> tuple[float, float]:
        """Return the FLOPs of a layer on the matrix engine, and on the vector engine."""
        layers = self.tiler.layers
        written = {t: made[t] for t in layers.outputs[layer] if t in made}
        _, flops = layers.needs(layer, written)
        operators = [layers.graph.operators[op].flops for op in layers.members[layer]]
        of_matrix = sum(
            layers.graph.operators[op].flops
            for op in layers.members[layer]
            if self._on_matrix_engine(op)
        )
        matrix = flops * of_matrix / sum(operators) if of_matrix else 0.0
        return matrix, flops - matrix

    def _bind(self, home: Mapping[int, Tiling]) -> dict[int, tuple[int, Binding]]:
        """Return for each layer an output and its binding.

        A reader's binding is taken unless it uses fewer cores.
        """
        layers, dimensions = self.tiler.layers, self.tiler.dimensions
        last, _ = main_output(self.instances, self.number)
        bind: dict[int, tuple[int, Binding]] = {}
        for layer in sorted(home, reverse=True):
            boxes = home[layer].boxes
            output = next(t for t in reversed(layers.outputs[layer]) if t in boxes)
            asked = self.bound if output == last else ()
            for reader in bits(layers.readers(output) & mask_of(bind)):
                asked = asked or infer_binding(dimensions, *bind[reader], output)
            plain = plain_binding(boxes[output], self.device.cores)
            keeps = asked and divides(asked, boxes[output])
            bind[layer] = output, max(asked, plain, key=math.prod) if keeps else plain
        return bind

    def _task(
        self, layer: int, tiling: Tiling, bind: Mapping[int, tuple[int, Binding]]
    ) -> LayerTask:
        layers, made = self.tiler.layers, self.instances.instances[self.number].work.boxes
        tiles = tiling.tiles
        mask = mask_of(tiling.run)
        written = {t: made[t] for t in layers.outputs[layer] if t in made}
        read, _ = layers.needs(layer, written)
        matrix, vector = self._flops(layer, made)
        first = {t: next(n for n in tiling.run if t in layers.inputs[n]) for t in read}
        outside = {
            t: box
            for t, box in read.items()
            if ((maker := layers.maker(t)) is None or not mask >> maker & 1) and first[t] == layer
        }
        leaving = set(exits(layers, mask)) & set(written)
        return LayerTask(
            layer,
            matrix / tiles,
            vector / tiles,
            sum(nbytes(layers, t, box) for t, box in (*read.items(), *written.items())) // tiles,
            {
                t: -(-nbytes(layers, t, box) * tiling.input_passes // tiles)
                for t, box in outside.items()
            },
            {t: -(-nbytes(layers, t, written[t]) // tiles) for t in sorted(leaving)},
            {t: self._exchanged(layer, t, tiling, bind) for t in read},
            layers.weight_bytes[layer],
            bind[layer][1],
        )

    def _on_matrix_engine(self, op: int) -> bool:
        operator = self.tiler.layers.graph.operators[op]
        if operator.kind not in ANCHORS | {"matmul"}:
            return False
        # A convolution with one channel a group contains no matrix product.
        shape = self.tiler.layers.graph.tensors[operator.inputs[0]].shape
        return operator.attrs.get("groups", 1) == 1 or operator.attrs["groups"] != shape[1]

    def _exchanged(
        self, layer: int, tensor: int, tiling: Tiling, bind: Mapping[int, tuple[int, Binding]]
    ) -> int:
        """Return the bytes of an input's tile that cores need but have not computed themselves."""
        layers, dimensions = self.tiler.layers, self.tiler.dimensions
        output, bound = bind[layer]
        if tensor not in tiling.boxes:  # the middle tile is cut from another input of a join
            return 0
        box = tiling.boxes[tensor]
        wanted = infer_binding(dimensions, output, bound, tensor)
        maker = layers.maker(tensor)
        if maker is not None and maker in bind and wanted:
            held = infer_binding(dimensions, *bind[maker], tensor)
            wanted = wanted if held == wanted else ()
        if not wanted:
            return nbytes(layers, tensor, box) if math.prod(bound) > 1 else 0
        read, _ = layers.needs(layer, {output: _core_share(tiling.boxes[output], bound)})
        every_core = math.prod(bound) * nbytes(layers, tensor, read.get(tensor, box))
        return max(0, every_core - nbytes(layers, tensor, box))


def _core_share(box: Box, bound: Binding) -> Box:
    """Return the box that a middle core computes."""
    sizes = [(end - begin) // factor for (begin, end), factor in zip(box, bound, strict=True)]
    return tuple(
        (begin + size * (factor // 2), begin + size * (factor // 2) + size)
        for (begin, _), size, factor in zip(box, sizes, bound, strict=True)
    )


def _no_seconds(tiling: Tiling) -> float:
    return 0.0


def stitch(
    tiler: Tiler,
    subgraph: int,
    made: Mapping[int, Box],
    seconds: Callable[[Tiling], float],
    most: int,
) -> tuple[Tiling, ...]:
    """Cut a kernel into runs of layers that exchange tiles in the local buffer.

    Of all cuts that of the least time is taken, and of equals that of the fewest runs, by dynamic
    programming: layers of a run exchange nothing with buffers further away, but their weights may
    have to pass once for each tile.

    ``subgraph`` is the bit set of the kernel's layers, and ``made`` its boxes of tensors.
    ``seconds`` estimates the time of a run. A run has at most ``most`` layers; with one nothing is
    stitched.
    """
    order = [n for n in bits(subgraph) if any(t in made for t in tiler.layers.outputs[n])]
    best: list[tuple[float, int]] = [(0.0, 0)]
    last: list[Tiling] = []
    for end in range(1, len(order) + 1):
        ways: list[tuple[float, int, Tiling]] = []
        for begin in range(end - 1, max(-1, end - 1 - most), -1):
            tiling = tiler.tile(tuple(order[begin:end]), made)
            if tiling is None:  # Nor do tiles of more layers fit.
                break
            before, runs = best[begin]
            ways.append((before + seconds(tiling), runs + 1, tiling))
        # Tolerate rounding: sums of the same times in another order count as equal.
        least = min(way[0] for way in ways) * (1 + 1e-9)
        _, runs, tiling = min((w for w in ways if w[0] <= least), key=lambda way: way[1])
        best.append((least, runs))
        last.append(tiling)
    stitched: list[Tiling] = []
    left = len(order)
    while left:
        stitched.append(last[left - 1])
        left -= len(last[left - 1].run)
    return tuple(reversed(stitched))
