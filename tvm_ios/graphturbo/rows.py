"""A test whether operators can make some rows of an image from some rows of others."""

from __future__ import annotations

from typing import cast

from tvm_ios.graph.elements import Operator
from tvm_ios.graph.operators import ELEMENT_WISE
from tvm_ios.graphturbo.dimensions import Dimensions

_ROWS = 2
_ALONG_AN_AXIS = frozenset({"concat", "split", "softmax"})
_WINDOWED = frozenset({"conv2d", "max_pool2d", "avg_pool2d"})
_OTHERS = frozenset({"bias_add", "lrn"})


def cuts_rows(dimensions: Dimensions, dimension: int, op: int) -> bool:
    """Return whether an operator can be cut along a dimension, the rows of images everywhere.

    A window at the border of a part reads rows that the part next to it reads too; only at the
    border of the whole image it has padding. An operator whose results have no such rows is
    computed as it is.
    """
    graph = dimensions.graph
    operator = graph.operators[op]
    tensors = [t for t in operator.inputs if not graph.tensors[t].constant]
    if not any(dimension in dimensions.of(t) for t in operator.outputs):
        return True
    for tensor in (*tensors, *operator.outputs):
        if dimension in dimensions.of(tensor) and (
            dimensions.matching_axis(dimension, tensor) != _ROWS
            or len(graph.tensors[tensor].shape) != 4
        ):
            return False
    if operator.kind in _WINDOWED:
        return _reaches_rows(operator, *(graph.tensors[t].shape for t in operator.inputs))
    if operator.kind in _ALONG_AN_AXIS:
        return operator.attrs["axis"] != _ROWS
    return operator.kind in ELEMENT_WISE or operator.kind in _OTHERS


def _reaches_rows(operator: Operator, data: tuple[int, ...], *weights: tuple[int, ...]) -> bool:
    """Return whether no window lies in padding alone, and none beyond it."""
    attrs = operator.attrs
    kernel = weights[0][2] if weights else cast(tuple[int, ...], attrs["kernel"])[0]
    pads, strides = (cast(tuple[int, ...], attrs[name]) for name in ("pads", "strides"))
    dilation = cast(tuple[int, ...], attrs.get("dilations", (1, 1)))[0]
    reach = (kernel - 1) * dilation + 1
    beyond = bool(attrs.get("ceil_mode")) and (data[2] + pads[0] + pads[2] - reach) % strides[0]
    return max(pads[0], pads[2]) < reach and not beyond
