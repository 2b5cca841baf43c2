"""The boxes, FLOPs and peak memory of a part of a sub-graph."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from itertools import accumulate

from tvm_ios.graph.op_graph import bits
from tvm_ios.graphturbo.box import Box, hull, volume, whole
from tvm_ios.graphturbo.layers import Layers


@dataclass(frozen=True, slots=True)
class PartialWork:
    """The work for some elements of a sub-graph's outputs."""

    #: For each tensor the elements that are read or made; inputs of the sub-graph included.
    boxes: Mapping[int, Box]
    #: Bytes of the tensors that are live at once, in the order of the layers: inputs from the start
    #: to their last reader, outputs to the end. Weights are not counted: a small buffer of fixed
    #: size serves them layer by layer (section 2.2).
    peak: int
    #: Floating-point operations; elements in several parts are counted in each of them.
    flops: float


def part_of(layers: Layers, subgraph: int, owned: Mapping[int, Box]) -> PartialWork:
    """Return the work for some elements of a sub-graph's outputs, traced back to its inputs."""
    boxes = dict(owned)
    flops = 0.0
    computed: list[int] = []
    for layer in reversed(list(bits(subgraph))):
        written = {t: boxes[t] for t in layers.outputs[layer] if t in boxes}
        if not written:
            continue
        computed.append(layer)
        reads, work = layers.needs(layer, written)
        flops += work
        for tensor, box in reads.items():
            boxes[tensor] = hull(boxes.get(tensor), box)
    return PartialWork(boxes, _peak(layers, computed[::-1], boxes, owned), flops)


def tensor_boxes(layers: Layers, subgraph: int, owned: Mapping[int, Box]) -> dict[int, Box]:
    """Return the box of every tensor that a part reads or makes, those inside layers included."""
    boxes = dict(owned)
    for layer in reversed(list(bits(subgraph))):
        written = {t: boxes[t] for t in layers.outputs[layer] if t in boxes}
        if written:
            for tensor, box in layers.boxes(layer, written)[0].items():
                boxes[tensor] = hull(boxes.get(tensor), box)
    return boxes


def whole_part(layers: Layers, subgraph: int) -> PartialWork:
    """Return the work of a whole sub-graph at once."""
    shapes = layers.graph.tensors
    return part_of(layers, subgraph, {t: whole(shapes[t].shape) for t in exits(layers, subgraph)})


def exits(layers: Layers, subgraph: int) -> tuple[int, ...]:
    """Return the tensors that a sub-graph makes for others, or as outputs of the graph."""
    return tuple(
        t
        for layer in bits(subgraph)
        for t in layers.outputs[layer]
        if t in layers.graph.outputs or layers.readers(t) & ~subgraph
    )


def entries(layers: Layers, subgraph: int) -> tuple[int, ...]:
    """Return the tensors that a sub-graph reads from outside, constants excluded."""
    read = (t for layer in bits(subgraph) for t in layers.inputs[layer])
    return tuple(
        dict.fromkeys(t for t in read if (m := layers.maker(t)) is None or not subgraph >> m & 1)
    )


def nbytes(layers: Layers, tensor: int, box: Box) -> int:
    """Return the bytes of some elements of a tensor."""
    described = layers.graph.tensors[tensor]
    return volume(box) * described.nbytes // max(1, volume(whole(described.shape)))


def live_bytes(lives: Iterable[tuple[int, int, int]], steps: int) -> list[int]:
    """Return for each step the bytes that are live in it.

    ``lives`` holds for each tensor the first and the last step that it is live in, and its bytes.
    """
    change = [0] * (steps + 1)
    for first, last, size in lives:
        change[first] += size
        change[last + 1] -= size
    return list(accumulate(change[:-1]))


def _peak(
    layers: Layers, order: list[int], boxes: Mapping[int, Box], owned: Mapping[int, Box]
) -> int:
    steps = len(order)
    first: dict[int, int] = {}
    last: dict[int, int] = dict.fromkeys(owned, steps - 1)
    for step, layer in enumerate(order):
        for tensor in layers.inputs[layer]:
            if tensor in boxes:
                # A tensor that no layer has made is an input, live from the start.
                first.setdefault(tensor, 0)
                last[tensor] = max(last.get(tensor, 0), step)
        for tensor in layers.outputs[layer]:
            if tensor in boxes:
                first[tensor] = step
                last.setdefault(tensor, step)
    lives = ((begin, last[t], nbytes(layers, t, boxes[t])) for t, begin in first.items())
    return max(live_bytes(lives, steps), default=0)
