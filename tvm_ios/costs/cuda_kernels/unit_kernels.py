"""Estimates of the CUDA kernels that units and merged units get, from their graph alone."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import ceil, prod
from typing import Any

from tvm_ios.costs.cuda_kernels.block_work import BlockWork, round_cycles
from tvm_ios.costs.cuda_kernels.matrix_product import VECTOR_ROWS, MatrixProduct
from tvm_ios.costs.cuda_kernels.product_estimate import (
    block_count,
    estimates,
    product_bytes,
    product_work,
    sum_blocks,
    sum_widths,
    sum_work,
)
from tvm_ios.costs.cuda_kernels.stream_estimate import mean_channels, mean_work, stream_work
from tvm_ios.costs.cuda_kernels.target_gpu import TargetGpu
from tvm_ios.costs.cuda_kernels.tile import THREADS, WIDE, GemmTile
from tvm_ios.costs.cuda_kernels.window_estimate import (
    SlidingWindow,
    WindowCut,
    best_cut,
    window_blocks,
    window_work,
)
from tvm_ios.costs.kernel_estimate import (
    LEAST_DEPTH,
    KernelEstimate,
    UnitConvolution,
    convolutions_of,
)
from tvm_ios.devices.device import WARP
from tvm_ios.graph.merge_rule import MergePlan
from tvm_ios.graph.op_graph import OpGraph

_PRECISION = "float32"
#: Operators that move nothing where what they read is written to its place.
_PLACED = {"concat", "reshape", "flatten", "squeeze", "unsqueeze", "identity"}


@dataclass(frozen=True, slots=True)
class ImageMean:
    """The mean of all pixels, channel by channel."""

    batch: int
    pixels: int
    channels: int


@dataclass(frozen=True, slots=True)
class Stream:
    """Operators that go element by element."""

    elements: int
    operations: int
    nbytes: int


#: All that the time of a kernel depends on, but for the GPU.
Shape = MatrixProduct | SlidingWindow | ImageMean | Stream
#: The work of a block of a kernel, its blocks, and the bytes that it moves.
Grid = tuple[BlockWork, int, int]


def cuda_kernels(graph: OpGraph, unit: int, gpu: TargetGpu) -> tuple[KernelEstimate, ...]:
    """Return the kernels of a unit, one after another; none if its inputs are written in place."""
    shapes = shapes_of(graph, unit)
    return tuple(estimate(*grid, gpu) for shape in shapes for grid in grids_of(shape, gpu))


def merged_cuda_kernels(
    graph: OpGraph, plan: MergePlan, gpu: TargetGpu
) -> tuple[KernelEstimate, ...]:
    """Return the kernels of merged convolutions, which write each output to its own place."""
    op = graph.operators[plan.units[0]]
    channels = graph.tensors[op.inputs[1]].shape[1]
    batch, _, *pixels = graph.tensors[op.outputs[0]].shape
    taps, read = prod(plan.kernel), prod(graph.tensors[op.inputs[0]].shape)
    size = (batch * prod(pixels), plan.out_channels, channels * taps, read)
    merged = _product(*size, bordered=taps > 1, wide=channels % WIDE == 0)
    return tuple(estimate(*grid, gpu) for grid in grids_of(merged, gpu))


def shapes_of(graph: OpGraph, unit: int) -> list[Shape]:
    """Return the shapes of what the kernels of a unit compute, one after another."""
    op = graph.operators[unit]
    kinds = op.kind.split("+")
    output = graph.tensors[op.outputs[0]]
    if set(kinds) <= _PLACED and not set(op.outputs) & set(graph.outputs):
        return []
    data = next((graph.tensors[t] for t in op.inputs if not graph.tensors[t].constant), output)
    if len(output.shape) == len(data.shape) == 4:
        convolutions = convolutions_of(op)
        if convolutions:
            return _convolutions(graph, unit, convolutions)
        if "kernel" in op.attrs:
            return [_window(output.shape, op.attrs)]
    if kinds[0] in ("mean", "global_avg_pool2d") and len(data.shape) == 4:
        batch, channels, *pixels = data.shape
        return [ImageMean(batch, prod(pixels), channels)]
    elements = prod(output.shape)
    depth = op.flops // (2 * elements) if elements else 0
    if depth >= LEAST_DEPTH and len(op.inputs) > 1:
        columns = output.shape[-1]
        rows = elements // columns
        size = (rows, (columns,), depth, rows * depth)
        return [_product(*size, bordered=False, wide=depth % WIDE == 0)]
    return [Stream(elements, len(kinds), graph.operator_bytes(unit))]


def grids_of(shape: Shape, gpu: TargetGpu, cut: GemmTile | WindowCut | None = None) -> list[Grid]:
    """Return the grids that compute a shape, in a given cut or in the fastest one."""
    if isinstance(shape, MatrixProduct):
        tile = cut if isinstance(cut, GemmTile) else estimates(shape, gpu, _PRECISION)[0][1]
        work, blocks = product_work(shape, tile, _PRECISION), block_count(shape, tile)
        grids = [(work, blocks, round(product_bytes(shape, _PRECISION)))]
        if tile.splits > 1:
            widths = sum_widths(shape, tile, gpu)
            nbytes = 4 * (tile.splits + 1) * shape.rows * shape.columns
            grids.append((sum_work(tile, max(widths)), sum(sum_blocks(shape, widths)), nbytes))
        return grids
    if isinstance(shape, SlidingWindow):
        window = cut if isinstance(cut, WindowCut) else best_cut(shape, gpu)
        nbytes = 2 * 4 * shape.lines * shape.across * shape.channels
        return [(window_work(shape, window), window_blocks(shape, window), nbytes)]
    if isinstance(shape, ImageMean):
        each = mean_channels(shape.batch, shape.pixels, shape.channels, gpu)
        blocks = shape.batch * ceil(shape.channels / each)
        nbytes = 4 * shape.batch * shape.pixels * shape.channels
        return [(mean_work(shape.pixels, each), blocks, nbytes)]
    width = WIDE if shape.elements % WIDE == 0 else 1
    blocks = max(1, ceil(shape.elements / width / THREADS))
    return [(stream_work(width, shape.operations), blocks, shape.nbytes)]


def _convolutions(graph: OpGraph, unit: int, convolutions: list[UnitConvolution]) -> list[Shape]:
    op = graph.operators[unit]
    batch, _, *extents = graph.tensors[op.outputs[0]].shape
    pixels, data = prod(extents), op.inputs[0]
    shapes: list[Shape] = []
    before = op.kind.split("+").index("conv2d")
    for number, convolution in enumerate(convolutions):
        outputs, channels, *window = graph.tensors[op.inputs[convolution.weight]].shape
        taps = prod(window)
        if before and not number and taps > 1 and channels > 1:
            # Padding begins after what is applied to the data, so that is a kernel of its own.
            read = graph.tensors[data]
            shapes.append(Stream(prod(read.shape), before, 2 * read.nbytes))
        if channels == 1 and convolution.groups == outputs:
            sliding = SlidingWindow(
                batch * extents[0],
                pixels // extents[0],
                outputs,
                (window[0], taps // window[0]),
                weighted=True,
                bordered=convolution.padded,
                wide=outputs % WIDE == 0,
            )
            shapes.append(sliding)
            continue
        # The model's inputs have their channels apart.
        wide = channels % WIDE == 0 and (number > 0 or data not in graph.inputs)
        parts = (outputs // convolution.groups,) * convolution.groups
        rows = batch * pixels
        read = rows * channels * convolution.groups
        if not number:
            read = prod(graph.tensors[data].shape)
        size = (rows, parts, channels * taps, read)
        shapes.append(_product(*size, bordered=convolution.padded, wide=wide))
    return shapes


def _window(written: tuple[int, ...], attributes: Mapping[str, Any]) -> SlidingWindow:
    batch, channels, height, width = written
    rows, columns = attributes["kernel"]
    padded = any(attributes.get("pads", ())) or bool(attributes.get("ceil_mode", False))
    return SlidingWindow(
        batch * height,
        width,
        channels,
        (rows, columns),
        weighted=False,
        bordered=padded,
        wide=channels % WIDE == 0,
    )


def _product(
    rows: int, parts: tuple[int, ...], depth: int, elements: int, *, bordered: bool, wide: bool
) -> MatrixProduct:
    return MatrixProduct(
        rows,
        parts,
        depth,
        elements,
        wide=wide,
        bordered=bordered,
        vectors=rows <= VECTOR_ROWS and not bordered,
        stores=tuple((count, WIDE if count % WIDE == 0 else 1) for count in parts),
    )


def estimate(work: BlockWork, blocks: int, nbytes: int, gpu: TargetGpu) -> KernelEstimate:
    """Return the estimate of a grid, by which it contends with others."""
    alone = round_cycles(work, 1, gpu)
    together = max(1, gpu.blocks_per_processor(work.footprint))
    share = min(1.0, round_cycles(work, together, gpu) / together / alone)
    warps = ceil(work.footprint.threads / WARP)
    return KernelEstimate(blocks, alone / gpu.clock, share, nbytes, warps=warps)
