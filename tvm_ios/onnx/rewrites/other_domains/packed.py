"""Rewrites of products with weights of a few bits, which the program unpacks from bytes."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import onnx_ir as ir

from tvm_ios.files.array_files import Array
from tvm_ios.onnx.rewrites.other_domains.deferred import array_of, input_of, refusal, shape_of
from tvm_ios.onnx.rewrites.steps import Steps

_PACKED = "tvm_ios.packed"


def stays_packed(node: Any) -> bool:
    """Return whether a node unpacks weights, which folding would make 4 to 16 times larger."""
    return _PACKED in node.metadata_props


def _matmul(steps: Steps) -> None:
    """Rewrite ``MatMulNBits``: weights with a scale and a zero point per block of a column."""
    data, weight, scales, zeros, order, bias = (input_of(steps, place) for place in range(6))
    bits, block = steps.integer("bits", 4), steps.integer("block_size", 0)
    columns, rows = steps.integer("N", 0), steps.integer("K", 0)
    if order is not None or bits not in (2, 4, 8) or steps.integer("weight_prepacked", 0):
        raise refusal(steps, "orders its weights anew, or has them in another format")
    dtype = steps.node.outputs[0].dtype
    blocks = -(-rows // block)
    # Rows come first, so that what is unpacked is the matrix of the product.
    codes = array_of(weight).reshape(columns, blocks, -1).transpose(1, 2, 0)
    scale = array_of(scales).astype(np.float32).reshape(columns, blocks).T
    origin = np.full((1, 1), 2 ** (bits - 1), np.float32)
    if zeros is not None:
        given = array_of(zeros).reshape(columns, -1)
        if given.dtype == np.uint8:
            given = _unpacked(given, bits)[:, :blocks]
        origin = given.astype(np.float32).T
    numbers = _as_floats(steps, steps.number(codes[:, :, np.newaxis]), bits, columns=True)
    centred = steps.op("Sub", numbers, steps.number(origin[:, np.newaxis, np.newaxis]))
    matrix = steps.op("Mul", centred, steps.number(scale[:, np.newaxis, np.newaxis]))
    matrix = steps.op("Reshape", matrix, steps.number([blocks * block, columns]))
    if rows < blocks * block:
        matrix = steps.op("Slice", matrix, *(steps.number([n]) for n in (0, rows, 0)))
    if dtype != ir.DataType.FLOAT:
        matrix = steps.op("Cast", matrix, to=int(dtype))
    result = steps.op("MatMul", data, matrix)
    steps.stand_for(result if bias is None else steps.op("Add", result, bias))


def _gather(steps: Steps) -> None:
    """Rewrite ``GatherBlockQuantized``: gathered rows with a scale per block of a row."""
    data, places, scales, zeros = (input_of(steps, place) for place in range(4))
    bits, block = steps.integer("bits", 4), steps.integer("block_size", 128)
    codes, scale = array_of(data), array_of(scales)
    if (
        codes.dtype != np.uint8
        or codes.ndim != 2
        or steps.integer("gather_axis", 0) % 2 != 0
        or steps.integer("quantize_axis", 1) % 2 != 1
        or (length := codes.shape[1] * 8 // bits) != block * scale.shape[1]
    ):
        raise refusal(steps, "gathers from weights that are no rows of whole blocks in bytes")
    blocks = scale.shape[1]
    extents = shape_of(places)

    def rows(values: Array) -> Any:
        return steps.op("Gather", steps.number(values), places, axis=0)

    numbers = _as_floats(steps, rows(codes[..., np.newaxis]), bits)
    numbers = steps.op("Reshape", numbers, steps.number([*extents, blocks, length // blocks]))
    if zeros is None:
        origin = steps.number(np.array(2 ** (bits - 1), np.float32))
    else:
        origin = rows(_unpacked(array_of(zeros), bits)[:, :blocks, np.newaxis])
        origin = steps.op("Cast", origin, to=int(ir.DataType.FLOAT))
    wide = steps.op("Cast", rows(scale[..., np.newaxis]), to=int(ir.DataType.FLOAT))
    result = steps.op("Mul", steps.op("Sub", numbers, origin), wide)
    result = steps.op("Reshape", result, steps.number([*extents, length]))
    steps.stand_for(steps.op("Cast", result, to=int(steps.node.outputs[0].dtype)))


def _as_floats(steps: Steps, codes: Any, bits: int, *, columns: bool = False) -> Any:
    """Return packed codes of shape (..., 1), in bytes, as floats of shape (..., codes).

    With ``columns`` both have one more axis at the end.
    """
    up = np.arange(8 - bits, -1, -bits, dtype=np.uint8)
    up = up.reshape(-1, 1) if columns else up
    shifted = steps.op("BitShift", codes, steps.number(up), direction="LEFT")
    down = steps.number(np.array(8 - bits, np.uint8))
    alone = steps.op("BitShift", shifted, down, direction="RIGHT")
    for value in (shifted, alone):
        value.producer().metadata_props[_PACKED] = str(bits)
        value.dtype = ir.DataType.UINT8
    return steps.op("Cast", alone, to=int(ir.DataType.FLOAT))


def _unpacked(array: Array, bits: int) -> Array:
    """Return the codes along the last axis of bytes, the lowest bits first."""
    shifts = np.arange(0, 8, bits, dtype=np.uint8)
    codes = (array[..., np.newaxis] >> shifts) & np.uint8(2**bits - 1)
    return codes.reshape(*array.shape[:-1], -1)


#: By the operators' names.
PACKED: Mapping[str, Callable[[Steps], None]] = {
    "GatherBlockQuantized": _gather,
    "MatMulNBits": _matmul,
}
