"""Scratch memory that the reference kernels of TensorFlow Lite Micro ask for."""

from __future__ import annotations

import math
from collections.abc import Sequence

from tvm_ios.memory.formats.tflite.model import Operator, Tensor
from tvm_ios.memory.formats.tflite.schema import Operation, TensorType

_FIXED_POINT = (TensorType.INT8, TensorType.INT16)
#: The state of the cell among the inputs of an LSTM, and that of its output.
_OUTPUT_STATE, _CELL_STATE = 18, 19


def scratch_requests(operator: Operator, tensors: Sequence[Tensor]) -> tuple[int, ...]:
    """Return the bytes of each piece of scratch that an operator's kernel asks for, in its order.

    Other kernels than those of reference, such as a vendor's for one processor, ask for others.
    """
    inputs = [tensors[n] if n >= 0 else None for n in operator.inputs]
    result = tensors[operator.outputs[0]] if operator.outputs else None
    match operator.code, inputs:
        case (
            Operation.CONV_2D | Operation.DEPTHWISE_CONV_2D | Operation.FULLY_CONNECTED,
            [_, Tensor(type=TensorType.INT4) as weights, *_],
        ):
            # They are unpacked to a byte each.
            return (weights.elements,)
        case Operation.TRANSPOSE_CONV, [_, _, Tensor() as data, *bias] if result:
            if data.type not in _FIXED_POINT:
                return ()
            wide = 4 if data.type == TensorType.INT8 else 8
            narrow = [b for b in bias if b and data.type == b.type == TensorType.INT16]
            return (wide * result.elements, *(8 * b.elements for b in narrow))
        case Operation.SVDF, [Tensor() as data, Tensor() as weights, *_] if result:
            filters = 4 * math.prod((*data.shape[:1], *weights.shape[:1]))
            fixed = weights.type == TensorType.INT8
            return (filters, 4 * result.elements) if fixed else (filters,)
        case Operation.UNIDIRECTIONAL_SEQUENCE_LSTM, [*_] if len(inputs) > _CELL_STATE:
            state, cell = inputs[_OUTPUT_STATE], inputs[_CELL_STATE]
            return (state.elements * cell.type.nbytes,) * 4 if state and cell else ()
        case Operation.MEAN | Operation.SUM, [Tensor() as data, Tensor() as axes] if result:
            sums = (4 * result.elements,) if data.type in _FIXED_POINT else ()
            return (*sums, 4 * len(data.shape), 4 * axes.elements)
        case (
            Operation.REDUCE_MAX | Operation.REDUCE_MIN | Operation.REDUCE_ALL,
            [Tensor() as data, Tensor() as axes],
        ):
            return (4 * len(data.shape), 4 * axes.elements)
        case Operation.ADD_N, _:
            # A pointer to each input.
            return (8 * len(inputs),)
        case Operation.MIRROR_PAD, [Tensor() as data, *_]:
            return (4 * len(data.shape),) * 2
        case _:
            return ()
