"""An order of instances as computation tasks on tensors: a layer of an instance each."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from tvm_ios.graph.op_graph import bits
from tvm_ios.graphturbo.box import Box, volume
from tvm_ios.graphturbo.footprint import nbytes
from tvm_ios.graphturbo.instances import Instances

#: A piece of a tensor: the instance that makes it (-1: an input of the graph), and the tensor.
Piece = tuple[int, int]
INPUT = -1


@dataclass(frozen=True, slots=True)
class LayerTask:
    """A layer of an instance.

    Attributes
    ----------
    instance, layer
        The numbers of both.
    flops
        Its floating-point operations.
    reads, writes
        The bytes of each piece that it reads or makes.
    weights
        The bytes of its constants.
    cores
        How many of the cluster's cores a plain binding of its output uses.
    """

    instance: int
    layer: int
    flops: float
    reads: Mapping[Piece, int]
    writes: Mapping[Piece, int]
    weights: int
    cores: int


def tasks_of(instances: Instances, order: Sequence[int], cores: int) -> tuple[LayerTask, ...]:
    """What runs one after the other.

    Parameters
    ----------
    instances, order
        All instances, and how they run.
    cores
        How many cores a cluster has.
    """
    layers = instances.layers
    tasks: list[LayerTask] = []
    for number in order:
        instance = instances.instances[number]
        boxes = instance.work.boxes
        for layer in bits(instances.subgraphs[instance.subgraph].layers):
            written = {t: boxes[t] for t in layers.outputs[layer] if t in boxes}
            if not written:
                continue
            read, flops = layers.needs(layer, written)
            reads: dict[Piece, int] = {}
            for tensor, box in read.items():
                reads |= _pieces(instances, number, tensor, box)
            tasks.append(
                LayerTask(
                    number,
                    layer,
                    flops,
                    reads,
                    {(number, t): nbytes(layers, t, box) for t, box in written.items()},
                    layers.weight_bytes[layer],
                    math.prod(plain_binding(written[layers.outputs[layer][-1]], cores)),
                )
            )
    return tuple(tasks)


def plain_binding(box: Box, cores: int) -> tuple[int, ...]:
    """The cores along each axis: as many as divide an extent evenly, from the outermost axis on.

    Parameters
    ----------
    box
        What is to be divided.
    cores
        Tried are the powers of two up to these.
    """
    left = cores
    binding: list[int] = []
    for begin, end in box:
        factor = 1 << (left.bit_length() - 1)
        while (end - begin) % factor:
            factor //= 2
        binding.append(factor)
        left //= factor
    return tuple(binding)


def _pieces(instances: Instances, reader: int, tensor: int, box: Box) -> dict[Piece, int]:
    if tensor not in instances.instances[reader].needs:
        return {(reader, tensor): nbytes(instances.layers, tensor, box)}
    if tensor not in instances.makers:
        return {(INPUT, tensor): nbytes(instances.layers, tensor, box)}
    pieces: dict[Piece, int] = {}
    for maker in instances.makers[tensor]:
        owned = instances.instances[maker].owned[tensor]
        shared = tuple((max(a, c), min(b, d)) for (a, b), (c, d) in zip(owned, box, strict=True))
        if all(begin < end for begin, end in shared) and volume(shared):
            pieces[maker, tensor] = nbytes(instances.layers, tensor, shared)
    return pieces
