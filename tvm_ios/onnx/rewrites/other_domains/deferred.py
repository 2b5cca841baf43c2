"""Deferral of a rewrite until more is known of what the operator reads."""

from __future__ import annotations

from typing import Any

from tvm_ios.files.array_files import Array
from tvm_ios.graph.elements import GraphError
from tvm_ios.onnx.edit import constant, node_text
from tvm_ios.onnx.rewrites.steps import Steps, static_shape

#: Advice in errors about an operator that is not supported.
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
    """The exception that a shape, type or constant of an operator's inputs is not known yet."""


def input_of(steps: Steps, place: int) -> Any:
    """Return an input of the node, or None if it is omitted."""
    inputs = steps.node.inputs
    return inputs[place] if place < len(inputs) else None


def shape_of(value: Any) -> list[int]:
    """Return the extents of a value, or raise Deferred if they are not known yet."""
    shape = static_shape(value)
    if shape is None:
        raise Deferred(f"the shape of {value.name!r}")
    return shape


def rank_of(value: Any) -> int:
    """Return the rank of an image, or raise Deferred if it is not known yet.

    Quantised operators, whose shapes are not inferred, have the rank of what they read.
    """
    while value.shape is None:
        node = value.producer()
        if node is None or node.op_type not in _KEEP_RANK:
            raise Deferred(f"the shape of {value.name!r}")
        value = node.inputs[2 if node.op_type == "QLinearConcat" else 0]
    return len(value.shape)


def type_of(value: Any) -> Any:
    """Return the type of a value's elements, or raise Deferred if it is not known yet."""
    if value.dtype is None:
        raise Deferred(f"the type of {value.name!r}")
    return value.dtype


def array_of(value: Any) -> Array:
    """Return the array of a constant, or raise Deferred if the value is not constant yet."""
    array = constant(value)
    if array is None:
        raise Deferred(f"{value.name!r}, which is computed,")
    return array


def is_read(steps: Steps, place: int) -> bool:
    """Return whether the node's output at this place exists and has a reader."""
    outputs = steps.node.outputs
    if place >= len(outputs) or not outputs[place].name:
        return False
    return bool(outputs[place].uses()) or outputs[place].is_graph_output()


def finish(steps: Steps, *results: Any) -> None:
    """Replace the node's outputs by results; None stands for an output that is not computed.

    Raise GraphError if such an output has a reader.
    """
    made: list[Any] = []
    for place, _ in enumerate(steps.node.outputs):
        result = results[place] if place < len(results) else None
        if result is None and is_read(steps, place):
            raise refusal(steps, f"has output {place}")
        made.append(steps.op("Identity", results[0]) if result is None else result)
    steps.stand_for(*made)


def refusal(steps: Steps, what: str) -> GraphError:
    """Return the error that a node uses a feature of its operator that no rewrite covers."""
    return GraphError(
        f"{node_text(steps.node)} of the domain {steps.node.domain!r} {what}, which is not "
        f"supported: {WAY_OUT}"
    )
