"""The canonical operator kinds: attributes, classes and floating-point operations.

Every importer speaks these kinds, so that one model has one fingerprint whatever it was read
with. Layout is the model's own (NCHW, OIHW); attributes are plain values; a constant is an input.

================  ========================  =================================================
kind              inputs                    attributes
================  ========================  =================================================
``conv2d``        data, OIHW weight         strides (2), pads (top, left, bottom, right),
                                            dilations (2), group
``conv2d_transpose``  data, IOHW weight     as ``conv2d``, and output_padding (2)
``dense``         data (..., K), (K, N)     none; the weight is a constant
``matmul``        a, b                      none
``bias_add``      data, (C,)                none; axis 1 of four-dimensional data, else the
                                            last
``relu`` ``sigmoid`` ``tanh``  data         none
``clip``          data                      min, max
``leaky_relu``    data                      alpha
``add`` ``subtract`` ``multiply`` ``divide``  a, b   none; either may be a constant
``max`` ``min``   a, b                      none; either may be a constant
``max_pool2d``    data                      kernel (2), strides (2), pads (4), dilations (2),
                                            ceil_mode
``avg_pool2d``    data                      kernel, strides, pads, ceil_mode,
                                            count_include_pad
``mean``          data                      axes, keepdims
``concat``        data...                   axis
``softmax``       data                      axis
``layer_norm``    data, scale, bias         axes (the last ones), epsilon
``gather``        data, indices             axis; negative indices count from the end
``erf`` ``sqrt`` ``exp``  data              none
``pow``           a, b                      none; either may be a constant
``reshape``       data                      shape
``transpose``     data                      perm
``pad``           data                      pads (all begins, then all ends), value
``slice``         data                      starts, ends, axes, steps
``split``         data                      axis, sizes; several outputs
``resize2d``      data                      size (2), mode (nearest, linear, cubic),
                                            coordinates, and rounding or alpha; names as in
                                            ONNX
``lrn``           data                      size, alpha, beta, bias
``recurrence``    sums of gates (steps,     kind (lstm, gru, rnn), activations, reverse, late,
                  batch, gates), weight     given (optional inputs), memory (a second output)
                  (1, gates, hidden), ...
``cast``          data                      to (a NumPy type name)
================  ========================  =================================================

Axes are not negative; attributes of ``slice`` are clamped to the extents. Any other kind is an
ONNX operator's name in lower case with its own attributes.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from tvm_ios.graph.elements import AttrValue, Operator, Tensor
from tvm_ios.graph.op_graph import OpGraph

#: Activations that a unit may end or begin with.
ACTIVATIONS = frozenset({"relu", "sigmoid", "tanh", "clip", "leaky_relu", "erf", "gelu"})

#: One result element from one element of each input.
ARITHMETIC = frozenset({"add", "subtract", "multiply", "divide"})

#: One result element from the element of each input that stands at the same place.
ELEMENT_WISE = (
    ACTIVATIONS
    | ARITHMETIC
    | {"sqrt", "exp", "pow", "abs", "neg", "log", "reciprocal", "floor", "ceil", "round", "silu"}
    | {"elu", "selu", "softplus", "softsign", "hardsigmoid", "hardswish"}
)

#: Only data movement.
RESHAPING = frozenset({"reshape", "transpose"})

#: Kinds with a weight and the bulk of the work.
ANCHORS = frozenset({"conv2d", "conv2d_transpose", "dense"})

POOLS = frozenset({"max_pool2d", "avg_pool2d", "mean"})

_MOVES = frozenset(
    {"concat", "reshape", "transpose", "pad", "slice", "split", "cast", "expand", "gather"}
)
_PER_ELEMENT = {
    "sigmoid": 4,
    "tanh": 6,
    "clip": 2,
    "leaky_relu": 2,
    "softmax": 5,
    "layer_norm": 8,
    "erf": 8,
    "resize2d": 8,
}


def operator_flops(
    kind: str, attrs: Mapping[str, AttrValue], inputs: Sequence[Tensor], outputs: Sequence[Tensor]
) -> int:
    """Return the floating-point operations of an operator; a multiply-add counts as two.

    ``kind`` and ``attrs`` are as in the table above. Data movement counts as none.
    """
    elements = sum(math.prod(tensor.shape) for tensor in outputs)
    if kind in _MOVES:
        return 0
    if kind == "conv2d":
        return 2 * elements * math.prod(inputs[1].shape[1:])
    if kind in ("dense", "matmul"):
        return 2 * elements * inputs[0].shape[-1]
    if kind == "conv":  # one or three spatial dimensions
        return 2 * elements * math.prod(inputs[1].shape[1:])
    if kind in ("conv2d_transpose", "convtranspose"):
        return 2 * math.prod(inputs[0].shape) * math.prod(inputs[1].shape[1:])
    if kind in ("max_pool2d", "avg_pool2d"):
        window = attrs["kernel"]
        assert isinstance(window, tuple)
        return elements * math.prod(int(str(extent)) for extent in window)
    if kind == "mean":
        return math.prod(inputs[0].shape)
    if kind == "recurrence":
        gates = math.prod(inputs[0].shape)
        return gates * (2 * inputs[1].shape[-1] + _PER_ELEMENT["tanh"])
    if kind == "lrn":
        # Squares, a window of sums, a power (about ten) and a division.
        return elements * (int(str(attrs["size"])) + 13)
    return elements * _PER_ELEMENT.get(kind, 1)


def is_bias(data: Sequence[int], row: Sequence[int]) -> bool:
    """Return whether adding a constant of shape ``row`` to data of another is a ``bias_add``."""
    if len(data) < 2 or len(row) > len(data):
        return False
    axis = 1 if len(data) == 4 else len(data) - 1
    padded = (1,) * (len(data) - len(row)) + tuple(row)
    return padded == tuple(n if i == axis else 1 for i, n in enumerate(data))


def is_depthwise(graph: OpGraph, op: Operator) -> bool:
    """Return whether an operator is a depthwise convolution with one output per channel."""
    if op.kind != "conv2d":
        return False
    weight = graph.tensors[op.inputs[1]].shape
    return op.attrs["group"] == graph.tensors[op.inputs[0]].shape[1] > 1 and weight[1] == 1


def is_pointwise(graph: OpGraph, op: Operator) -> bool:
    """Return whether an operator is a convolution with a 1x1 kernel and no groups."""
    return (
        op.kind == "conv2d"
        and op.attrs["group"] == 1
        and graph.tensors[op.inputs[1]].shape[2:] == (1, 1)
    )
