"""Estimates of the CUDA kernels that units and merged units get, from their graph alone."""

from __future__ import annotations

from collections.abc import Mapping
from math import ceil, prod
from typing import Any

from tvm_ios.costs.cuda_kernels.block_work import BlockWork, round_cycles
from tvm_ios.costs.cuda_kernels.matrix_product import MatrixProduct
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
from tvm_ios.costs.cuda_kernels.tile import THREADS, WIDE
from tvm_ios.costs.cuda_kernels.window_estimate import (
    SlidingWindow,
    best_cut,
    window_blocks,
    window_work,
)
from tvm_ios.costs.kernel_estimate import KernelEstimate, UnitConvolution, convolutions_of
from tvm_ios.devices.device import WARP
from tvm_ios.graph.merge_rule import MergePlan
from tvm_ios.graph.op_graph import OpGraph

_PRECISION = "float32"
#: The most rows of a product of vectors, and the fewest multiply-additions for each output of an
#: operator that counts as a product.
_VECTOR_ROWS, _LEAST_DEPTH = 4, 32
#: Operators that move nothing where what they read is written to its place.
_PLACED = {"concat", "reshape", "flatten", "squeeze", "unsqueeze", "identity"}


def cuda_kernels(graph: OpGraph, unit: int, gpu: TargetGpu) -> tuple[KernelEstimate, ...]:
    """Return the kernels of a unit, one after another; none if its inputs are written in place."""
    op = graph.operators[unit]
    kinds = op.kind.split("+")
    output = graph.tensors[op.outputs[0]]
    if set(kinds) <= _PLACED and not set(op.outputs) & set(graph.outputs):
        return ()
    data = next((graph.tensors[t] for t in op.inputs if not graph.tensors[t].constant), output)
    if len(output.shape) == len(data.shape) == 4:
        convolutions = convolutions_of(op)
        if convolutions:
            return _convolutions(graph, unit, convolutions, gpu)
        if "kernel" in op.attrs:
            return (_window(data.shape, output.shape, op.attrs, gpu),)
    if kinds[0] in ("mean", "global_avg_pool2d") and len(data.shape) == 4:
        batch, channels, *pixels = data.shape
        each = mean_channels(batch, prod(pixels), channels, gpu)
        blocks = batch * ceil(channels / each)
        return (_kernel(mean_work(prod(pixels), each), blocks, data.nbytes, gpu),)
    elements = prod(output.shape)
    depth = op.flops // (2 * elements) if elements else 0
    if depth >= _LEAST_DEPTH and len(op.inputs) > 1:
        columns = output.shape[-1]
        return _product(elements // columns, (columns,), depth, False, depth % WIDE == 0, gpu)
    return (_stream(elements, len(kinds), graph.operator_bytes(unit), gpu),)


def merged_cuda_kernels(
    graph: OpGraph, plan: MergePlan, gpu: TargetGpu
) -> tuple[KernelEstimate, ...]:
    """Return the kernels of merged convolutions, which write each output to its own place."""
    op = graph.operators[plan.units[0]]
    channels = graph.tensors[op.inputs[1]].shape[1]
    batch, _, *pixels = graph.tensors[op.outputs[0]].shape
    taps, wide = prod(plan.kernel), channels % WIDE == 0
    rows = batch * prod(pixels)
    return _product(rows, plan.out_channels, channels * taps, taps > 1, wide, gpu)


def _convolutions(
    graph: OpGraph, unit: int, convolutions: list[UnitConvolution], gpu: TargetGpu
) -> tuple[KernelEstimate, ...]:
    op = graph.operators[unit]
    batch, _, *extents = graph.tensors[op.outputs[0]].shape
    pixels, data = prod(extents), op.inputs[0]
    kernels: list[KernelEstimate] = []
    before = op.kind.split("+").index("conv2d")
    for number, convolution in enumerate(convolutions):
        outputs, channels, *window = graph.tensors[op.inputs[convolution.weight]].shape
        taps = prod(window)
        if before and not number and taps > 1 and channels > 1:
            # Padding begins after what is applied to the data, so that is a kernel of its own.
            elements = prod(graph.tensors[data].shape)
            kernels.append(_stream(elements, before, 2 * graph.tensors[data].nbytes, gpu))
        # The model's inputs have their channels apart.
        whole = channels % WIDE == 0 and (number > 0 or data not in graph.inputs)
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
            kernels.append(_sliding(sliding, 4 * batch * pixels * outputs * 2, gpu))
            continue
        parts = (outputs // convolution.groups,) * convolution.groups
        depth, bordered = channels * taps, convolution.padded
        kernels += _product(batch * pixels, parts, depth, bordered, whole, gpu)
    return tuple(kernels)


def _window(
    read: tuple[int, ...], written: tuple[int, ...], attributes: Mapping[str, Any], gpu: TargetGpu
) -> KernelEstimate:
    batch, channels, height, width = written
    kernel, pads = attributes["kernel"], attributes.get("pads", ())
    sliding = SlidingWindow(
        batch * height,
        width,
        channels,
        (kernel[0], kernel[1]),
        weighted=False,
        bordered=any(pads) or bool(attributes.get("ceil_mode", False)),
        wide=channels % WIDE == 0,
    )
    return _sliding(sliding, 4 * (prod(read) + prod(written)), gpu)


def _sliding(window: SlidingWindow, nbytes: int, gpu: TargetGpu) -> KernelEstimate:
    cut = best_cut(window, gpu)
    return _kernel(window_work(window, cut), window_blocks(window, cut), nbytes, gpu)


def _product(
    rows: int, parts: tuple[int, ...], depth: int, bordered: bool, wide: bool, gpu: TargetGpu
) -> tuple[KernelEstimate, ...]:
    product = MatrixProduct(
        rows,
        parts,
        depth,
        rows * depth,
        wide=wide,
        bordered=bordered,
        vectors=rows <= _VECTOR_ROWS and not bordered,
        stores=tuple((count, WIDE if count % WIDE == 0 else 1) for count in parts),
    )
    _, tile = estimates(product, gpu, _PRECISION)[0]
    work, blocks = product_work(product, tile, _PRECISION), block_count(product, tile)
    kernels = [_kernel(work, blocks, round(product_bytes(product, _PRECISION)), gpu)]
    if tile.splits > 1:
        widths = sum_widths(product, tile, gpu)
        nbytes = 4 * (tile.splits + 1) * rows * product.columns
        adding = sum_work(tile, max(widths)), sum(sum_blocks(product, widths))
        kernels.append(_kernel(*adding, nbytes, gpu))
    return tuple(kernels)


def _stream(elements: int, operations: int, nbytes: int, gpu: TargetGpu) -> KernelEstimate:
    width = WIDE if elements % WIDE == 0 else 1
    blocks = max(1, ceil(elements / width / THREADS))
    return _kernel(stream_work(width, operations), blocks, nbytes, gpu)


def _kernel(work: BlockWork, blocks: int, nbytes: int, gpu: TargetGpu) -> KernelEstimate:
    alone = round_cycles(work, 1, gpu)
    together = max(1, gpu.blocks_per_processor(work.footprint))
    share = min(1.0, round_cycles(work, together, gpu) / together / alone)
    warps = ceil(work.footprint.threads / WARP)
    return KernelEstimate(blocks, alone / gpu.clock, share, nbytes, warps=warps)
