"""An operator that cannot be written in others before more is known of what it reads."""

from __future__ import annotations

from typing import Any

from tvm_ios.files.array_files import Array
from tvm_ios.graph.elements import GraphError
from tvm_ios.onnx.edit import constant, node_text
from tvm_ios.onnx.rewrites.steps import Steps, static_shape

#: What can be done about an operator that is not read.
WAY_OUT = (
    "export the model without it, or give the model a function of this name that computes it by "
    "ONNX's operators (onnx.helper.make_function)"
)


_KEEP_RANK = frozenset(
    {
        *("DequantizeLinear", "MaxPool", "QLinearAdd", "QLinearAveragePool", "QLinearConcat"),
        *("QLinearConv", "QLinearLeakyRelu", "QLinearMul", "QLinearSigmoid", "QuantizeLinear"),
        "Transpose",
    }
)


class Deferred(Exception):
    """Something of an operator's inputs is not known yet."""


def input_of(steps: Steps, place: int) -> Any:
    """An input of the node, or None where it is left out."""
    inputs = steps.node.inputs
    return inputs[place] if place < len(inputs) else None


def shape_of(value: Any) -> list[int]:
    """The extents of a value.

    Raises
    ------
    Deferred
        If they are not known yet.
    """
    shape = static_shape(value)
    if shape is None:
        raise Deferred(f"the shape of {value.name!r}")
    return shape


def rank_of(value: Any) -> int:
    """How many axes an image has; quantised operators, whose shapes are not inferred, keep them.

    Raises
    ------
    Deferred
        If it is not known yet.
    """
    while value.shape is None:
        node = value.producer()
        if node is None or node.op_type not in _KEEP_RANK:
            raise Deferred(f"the shape of {value.name!r}")
        value = node.inputs[2 if node.op_type == "QLinearConcat" else 0]
    return len(value.shape)


def type_of(value: Any) -> Any:
    """The type of a value's elements.

    Raises
    ------
    Deferred
        If it is not known yet.
    """
    if value.dtype is None:
        raise Deferred(f"the type of {value.name!r}")
    return value.dtype


def array_of(value: Any) -> Array:
    """The array that a constant holds.

    Raises
    ------
    Deferred
        If it is not known yet.
    """
    array = constant(value)
    if array is None:
        raise Deferred(f"{value.name!r}, which is computed,")
    return array


def is_read(steps: Steps, place: int) -> bool:
    """Whether the node has an output at this place that something reads."""
    outputs = steps.node.outputs
    if place >= len(outputs) or not outputs[place].name:
        return False
    return bool(outputs[place].uses()) or outputs[place].is_graph_output()


def finish(steps: Steps, *results: Any) -> None:
    """Let results stand for the node's outputs; None for one that is not made.

    Raises
    ------
    GraphError
        If something reads one that is not made.
    """
    made: list[Any] = []
    for place, _ in enumerate(steps.node.outputs):
        result = results[place] if place < len(results) else None
        if result is None and is_read(steps, place):
            raise refusal(steps, f"has output {place}")
        made.append(steps.op("Identity", results[0]) if result is None else result)
    steps.stand_for(*made)


def refusal(steps: Steps, what: str) -> GraphError:
    """Say that a node uses a part of its operator that is not written in ONNX's operators."""
    return GraphError(
        f"{node_text(steps.node)} of the domain {steps.node.domain!r} {what}, which is not "
        f"supported: {WAY_OUT}"
    )
