"""Estimates of a unit's kernels on a device: number of blocks of threads, and time of a block.

A convolution or a product is computed in tiles, as libraries do it (implicit GEMM: rows are output
positions, columns are output channels); of several shapes of tiles the fastest is taken, and for
3x3 convolutions Winograd's transforms if they are faster. Other operators stream through memory.
These are the kernels of a good library; :mod:`tvm_ios.costs.cuda_kernels` has this project's own.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tvm_ios.devices.device import WARP, DeviceDescription
from tvm_ios.graph.elements import Operator
from tvm_ios.graph.merge_rule import MergePlan
from tvm_ios.graph.op_graph import OpGraph

#: Rows and columns of a tile, and of the part of it that one thread computes. Published: the names
#: of cuDNN 7's and CUTLASS's kernels for single precision ("volta_scudnn_128x64_relu_interior").
_TILES = ((128, 128, 8, 8), (128, 64, 8, 4), (64, 64, 4, 4), (128, 32, 8, 4))
#: Multiplications of F(2x2, 3x3) to those of a direct 3x3 convolution (Lavin and Gray, 2016), and
#: the part of the efficiency that transforms leave. The latter is assumed.
_WINOGRAD, _WINOGRAD_EFFICIENCY = 4 / 9, 0.75
#: The part of the loads from shared memory that arithmetic does not hide. Assumed.
_EXPOSED_LOADS = 0.25
#: Elements that a block of four warps streams. Assumed: 16 bytes a thread at once.
_STREAMED, _STREAMING_WARPS = 512, 4
#: The part of the peak that operators without tiles reach. Assumed: an addition and a
#: multiplication are not one instruction there.
_UNTILED_EFFICIENCY = 0.5
#: The fewest multiply-additions for each output of an operator that counts as a product.
LEAST_DEPTH = 32
#: The most rows of a product that can be computed as products of vectors. Assumed.
_FEW_ROWS = 8


@dataclass(frozen=True, slots=True)
class KernelEstimate:
    """A kernel of equal blocks."""

    #: The number of blocks of threads.
    blocks: int
    #: Seconds that a block takes when it has a processor for itself.
    block_seconds: float
    #: The part of a processor's throughput that a block uses while it is alone there.
    share: float
    #: Bytes that the kernel moves.
    bytes: int
    #: Seconds before its blocks are under way, in which it occupies nothing; its launch aside.
    overhead: float = 0.0
    #: Warps of a block; 0 where that is not known.
    warps: int = 0

    def seconds(self, device: DeviceDescription) -> float:
        """Return the seconds of its blocks when nothing else runs, bounded by the bandwidth."""
        together = max(1.0, self.share * math.ceil(self.blocks / device.processors))
        return max(self.block_seconds * together, self.bytes / device.bandwidth)


#: Rows and columns of a tile, and of the part of it that one thread computes.
Tile = tuple[int, int, int, int]
#: Chooses one of the kernels that can compute a product.
Choose = Callable[[Sequence[KernelEstimate], DeviceDescription], KernelEstimate]


def fastest_alone(kernels: Sequence[KernelEstimate], device: DeviceDescription) -> KernelEstimate:
    """Return the kernel that takes the least time with the device for itself."""
    return min(kernels, key=lambda kernel: kernel.seconds(device))


@dataclass(frozen=True, slots=True)
class KernelLibrary:
    """A library of kernels for matrix products: its tiles, and the way it chooses a kernel."""

    tiles: tuple[Tile, ...] = _TILES
    choose: Choose = fastest_alone
    #: Seconds until the blocks of a product or convolution run, besides those of any kernel.
    overhead: float = 0.0


def unit_kernels(
    graph: OpGraph, unit: int, device: DeviceDescription, library: KernelLibrary
) -> tuple[KernelEstimate, ...]:
    """Return the kernels of a unit, one after another.

    A library's convolution includes the bias and the activation after it, but nothing before it.
    """
    op = graph.operators[unit]
    output = graph.tensors[op.outputs[0]]
    convolutions = convolutions_of(op)
    if not convolutions or len(output.shape) < 3:
        return (_whole_unit(graph, unit, device, library),)
    batch, _, *extents = output.shape
    positions = batch * math.prod(extents)
    read = sum(graph.tensors[t].nbytes for t in op.inputs if not graph.tensors[t].constant)
    kernels: list[KernelEstimate] = []
    before = op.kind.split("+").index("conv2d")
    if before:
        data = graph.tensors[op.inputs[0]]
        elements = math.prod(data.shape)
        kernels.append(_streaming(elements, before * elements, read + data.nbytes, device))
        read = data.nbytes
    width = output.nbytes // max(1, math.prod(output.shape))
    for convolution in convolutions:
        weight = graph.tensors[op.inputs[convolution.weight]]
        channels, *window = weight.shape
        written = positions * channels * width
        depth = math.prod(window)
        moved = read + written + weight.nbytes
        if convolution.groups == 1:
            winograd = (*window[1:], *convolution.strides) == (3, 3, 1, 1)
            forms = product_forms(
                positions, channels, depth, moved, device, library, winograd=winograd
            )
            kernels.append(library.choose(forms, device))
        else:
            flops = 2 * positions * channels * depth
            kernels.append(_streaming(positions * channels, flops, moved, device))
        read = written
    return tuple(kernels)


def merged_kernel(
    graph: OpGraph,
    plan: MergePlan,
    bytes_moved: int,
    device: DeviceDescription,
    library: KernelLibrary,
) -> KernelEstimate:
    """Return the kernel of merged convolutions, which writes each output to its own place."""
    op = graph.operators[plan.units[0]]
    batch, _, *extents = graph.tensors[op.outputs[0]].shape
    return fastest_alone(
        product_forms(
            batch * math.prod(extents),
            sum(plan.out_channels),
            graph.tensors[op.inputs[1]].shape[1] * math.prod(plan.kernel),
            bytes_moved,
            device,
            library,
            winograd=(*plan.kernel, *plan.strides) == (3, 3, 1, 1),
        ),
        device,
    )


def copy_kernel(nbytes: int, device: DeviceDescription) -> KernelEstimate:
    """Return the kernel that copies so many bytes of float32."""
    return _streaming(nbytes // 4, 0, 2 * nbytes, device)


def product_forms(
    rows: int,
    columns: int,
    depth: int,
    bytes_moved: int,
    device: DeviceDescription,
    library: KernelLibrary,
    *,
    winograd: bool = False,
) -> list[KernelEstimate]:
    """Return the kernels that can compute a matrix product of ``rows`` by ``columns`` elements.

    Each element takes ``depth`` multiply-additions. ``winograd`` says whether the product is a
    convolution that Winograd's algorithm can compute.
    """
    size = (rows, columns, depth, bytes_moved)
    forms = [_tiled(*size, tile, device, library) for tile in library.tiles]
    if rows <= _FEW_ROWS:
        # The other matrix is streamed through memory.
        flops = 2 * rows * columns * depth
        forms.append(_streaming(columns * depth, flops, bytes_moved, device))
    if winograd:
        fewer = depth * _WINOGRAD / _WINOGRAD_EFFICIENCY
        # No Winograd kernel has tiles as narrow as the last ones.
        size = (rows, columns, fewer, bytes_moved)
        forms += [_tiled(*size, tile, device, library) for tile in _TILES[:-1]]
    return forms


def _tiled(
    rows: int,
    columns: int,
    depth: float,
    bytes_moved: int,
    tile: Tile,
    device: DeviceDescription,
    library: KernelLibrary,
) -> KernelEstimate:
    height, width, *thread = tile
    arithmetic = math.prod(thread) / 2
    reached = device.efficiency * arithmetic / (arithmetic + _EXPOSED_LOADS * sum(thread))
    share = device.arithmetic_share(height * width / math.prod(thread))
    processor_flops = device.peak_flops / device.processors * reached
    return KernelEstimate(
        blocks=math.ceil(rows / height) * math.ceil(columns / width),
        block_seconds=2 * height * width * depth / processor_flops / share,
        share=share,
        bytes=bytes_moved,
        overhead=device.kernel_overhead + library.overhead,
        warps=height * width // math.prod(thread) // WARP,
    )


def _whole_unit(
    graph: OpGraph, unit: int, device: DeviceDescription, library: KernelLibrary
) -> KernelEstimate:
    """Return the kernel of a unit without convolutions: a product, or a stream through memory."""
    op = graph.operators[unit]
    shape = graph.tensors[op.outputs[0]].shape
    elements = sum(math.prod(graph.tensors[t].shape) for t in op.outputs)
    bytes_moved = graph.operator_bytes(unit)
    depth = op.flops // (2 * elements) if elements else 0
    weighted = any(len(graph.tensors[t].shape) > 1 for t in op.inputs[1:])
    if depth < LEAST_DEPTH or not weighted:
        # A reduction reads more than it writes.
        read = max((math.prod(graph.tensors[t].shape) for t in op.inputs), default=0)
        return _streaming(max(elements, read), op.flops, bytes_moved, device)
    rows = elements // shape[-1]
    forms = product_forms(rows, shape[-1], depth, bytes_moved, device, library)
    return library.choose(forms, device)


def _streaming(
    elements: int, flops: int, bytes_moved: int, device: DeviceDescription
) -> KernelEstimate:
    blocks = max(1, math.ceil(elements / _STREAMED))
    share = min(1.0, _STREAMING_WARPS / device.streaming_warps)
    processor_flops = device.peak_flops / device.processors * _UNTILED_EFFICIENCY
    busy = max(bytes_moved / device.processor_bandwidth, flops / processor_flops) / blocks
    return KernelEstimate(
        blocks, busy / share, share, bytes_moved, device.kernel_overhead, _STREAMING_WARPS
    )


@dataclass(frozen=True, slots=True)
class UnitConvolution:
    """A convolution in a unit."""

    #: The place of its weight among the unit's inputs.
    weight: int
    groups: int
    strides: tuple[int, ...]
    #: Whether it is padded.
    padded: bool


def convolutions_of(op: Operator) -> list[UnitConvolution]:
    """Return the convolutions of a unit, in order."""
    if op.kind.split("+")[0] == "conv2d" and "kernel" in op.attrs:
        return [_convolution(1, op.attrs)]
    body: Any = op.attrs.get("body")
    if not body or "conv2d" not in op.kind.split("+"):
        return []
    found: list[UnitConvolution] = []
    for kind, attributes, wiring in body[0]:
        outside = [place for source, place in wiring if source == 0]
        if kind == "conv2d" and outside:
            found.append(_convolution(outside[-1], dict(attributes)))
    return found


def _convolution(weight: int, attributes: Mapping[str, Any]) -> UnitConvolution:
    strides, pads = attributes.get("strides", ()), attributes.get("pads", ())
    return UnitConvolution(weight, attributes.get("group", 1), tuple(strides), any(pads))
