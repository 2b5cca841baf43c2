"""Unroll ``If``, ``Loop`` and ``Scan`` whose course is known at compile time."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import onnx_ir as ir

from tvm_ios.graph.elements import GraphError
from tvm_ios.onnx.edit import constant, new_constant, node_text
from tvm_ios.onnx.rewrites.control.bodies import Body, replace_nodes
from tvm_ios.onnx.rewrites.control.trip_count import trip_count
from tvm_ios.onnx.rewrites.steps import Steps

#: Quotients, which end the process where integers are divided by zero.
_QUOTIENTS = ("Div", "Mod")
#: Operators that read or write places which may not be there, by the place of the input that says
#: which.
_INDEXED = {
    "Gather": 1,
    "GatherElements": 1,
    "GatherND": 1,
    "ScatterElements": 1,
    "ScatterND": 1,
    "SequenceAt": 1,
}


def write_control_flow_out(graph: Any, opset: int) -> bool:
    """Inline control flow that constants decide, and return whether there was any.

    Nested control flow is left for the next call. An ``If`` with a constant condition becomes its
    branch, a loop its steps one after another. An ``If`` with a computed condition becomes both
    branches and a selection, if their results have equal shapes. Constants of the graph must be
    folded. Raise GraphError if the graph becomes too large.
    """

    def results_of(node: Any) -> Sequence[Any] | None:
        write = _WRITERS.get(node.op_type)
        return None if write is None else write(graph, node, opset)

    return replace_nodes(graph, results_of)


def _if(graph: Any, node: Any, opset: int) -> Sequence[Any] | None:
    condition = constant(node.inputs[0])
    branches = [node.attributes[name].as_graph() for name in ("then_branch", "else_branch")]
    if condition is not None:
        branch = branches[0 if condition.item() else 1]
        return Body(graph, node, branch).write([], node.name)
    if opset < 9 or any(map(_holds_what_may_fail, branches)):
        return None
    shapes = [[value.shape for value in branch.outputs] for branch in branches]
    tensors = all(isinstance(value.type, ir.TensorType) for b in branches for value in b.outputs)
    if not tensors or not all(map(_is_same_and_static, *shapes)):
        return None
    pairs = [
        Body(graph, node, branch).write([], f"{node.name}.{which}")
        for branch, which in zip(branches, ("then", "else"), strict=True)
    ]
    steps = Steps(graph, node, opset)
    taken = steps.op("Reshape", node.inputs[0], steps.number(np.zeros(0, np.int64)))
    return [steps.op("Where", taken, *pair, like=pair[0]) for pair in zip(*pairs, strict=True)]


def _is_same_and_static(one: Any, other: Any) -> bool:
    return one is not None and other is not None and one.is_static() and one == other


def _holds_what_may_fail(graph: Any) -> bool:
    """Return whether a graph may fail or not end, so that it must run only if taken."""
    return any(map(_may_fail, ir.traversal.RecursiveGraphIterator(graph)))


def _may_fail(node: Any) -> bool:
    if node.op_type in _QUOTIENTS:
        dtype = node.outputs[0].dtype
        return dtype is None or not dtype.is_floating_point()
    if node.op_type in _INDEXED:
        return constant(node.inputs[_INDEXED[node.op_type]]) is None
    return node.op_type == "Loop"


def _loop(graph: Any, node: Any, opset: int) -> Sequence[Any] | None:
    trips = trip_count(node, opset)
    if trips is None:
        return None
    body = Body(graph, node, node.attributes["body"].as_graph())
    steps = Steps(graph, node, opset)
    carried = list(node.inputs[2:])
    rows: list[list[Any]] = [[] for _ in node.outputs[len(carried) :]]
    true = new_constant(graph, f"{node.name}.true", np.array(True)) if trips else None
    for step in range(trips):
        number = new_constant(graph, f"{node.name}.{step}", np.array(step, np.int64))
        _, *results = body.write([number, true, *carried], f"{node.name}.{step}")
        carried = results[: len(carried)]
        for row, result in zip(rows, results[len(carried) :], strict=True):
            row.append(result)
    outputs = node.outputs[len(carried) :]
    return [*carried, *(_stacked(steps, r, 0, o) for r, o in zip(rows, outputs, strict=True))]


def _scan(graph: Any, node: Any, opset: int) -> Sequence[Any] | None:
    scanned = node.attributes.get_int("num_scan_inputs", 1)
    body = Body(graph, node, node.attributes["body"].as_graph())
    steps = Steps(graph, node, opset)
    if opset < 9:
        return _batched_scan(steps, body, scanned)
    inputs = list(node.inputs)
    states, sources = inputs[: len(inputs) - scanned], inputs[len(inputs) - scanned :]
    axes = node.attributes.get_ints("scan_input_axes", [0] * scanned)
    return _scanned(
        steps, body, states, sources, axes,
        node.attributes.get_ints("scan_input_directions", [0] * scanned),
    )  # fmt: skip


def _scanned(
    steps: Steps,
    body: Body,
    states: Sequence[Any],
    sources: Sequence[Any],
    axes: Sequence[int],
    backward: Sequence[int],
    name: str = "",
) -> list[Any] | None:
    """Return the last states and the stacked results of all steps; None for an unknown number."""
    node = steps.node
    length, *others = {_extent(source, axis) for source, axis in zip(sources, axes, strict=True)}
    if length is None or others:
        return None
    states, count = list(states), len(states)
    rows: list[list[Any]] = [[] for _ in body.body.outputs[count:]]
    for step in range(length):
        read = [
            _slice(steps, source, length - 1 - step if is_backward else step, axis)
            for source, axis, is_backward in zip(sources, axes, backward, strict=True)
        ]
        results = body.write([*states, *read], f"{node.name}.{name}{step}")
        states = results[:count]
        for row, result in zip(rows, results[count:], strict=True):
            row.append(result)
    prepend = node.attributes.get_ints("scan_output_directions", [0] * len(rows))
    places = node.attributes.get_ints("scan_output_axes", [0] * len(rows))
    return [
        *states,
        *(
            _stacked(steps, row[::-1] if is_first else row, axis, output)
            for row, is_first, axis, output in zip(
                rows, prepend, places, node.outputs[count:], strict=True
            )
        ),
    ]


def _batched_scan(steps: Steps, body: Body, scanned: int) -> list[Any] | None:
    """Unroll a ``Scan`` of opset 8, on (batch, steps, ...), for each item of the batch."""
    node = steps.node
    lengths, *inputs = node.inputs
    batch = _extent(inputs[-1], 0)
    if lengths is not None or batch is None:
        return None
    items: list[list[Any]] = []
    for item in range(batch):
        values = [_slice(steps, value, item, 0) for value in inputs]
        count = len(values) - scanned
        for value, source in zip(values, inputs, strict=True):
            value.shape = None if source.shape is None else ir.Shape(tuple(source.shape)[1:])
        results = _scanned(
            steps, body, values[:count], values[count:], [0] * scanned,
            node.attributes.get_ints("directions", [0] * scanned), f"{item}.",
        )  # fmt: skip
        if results is None:
            return None
        items.append(results)
    return [
        _stacked(steps, row, 0, output)
        for row, output in zip(zip(*items, strict=True), node.outputs, strict=True)
    ]


def _extent(value: Any, axis: int) -> int | None:
    """Return the extent of an axis, or None if it is not known."""
    if value is None or value.shape is None:
        return None
    extent = value.shape[axis]
    return extent if isinstance(extent, int) else None


def _slice(steps: Steps, value: Any, index: int, axis: int) -> Any:
    place = new_constant(steps.graph, f"{steps.name}.{value.name}.{index}", np.array(index))
    return steps.op("Gather", value, place, axis=axis)


def _stacked(steps: Steps, parts: Sequence[Any], axis: int, output: Any) -> Any:
    """Return the values stacked along a new axis."""
    if parts:
        # A negative axis counts in the result, which has one more.
        return steps.op("Concat", *(steps.unsqueezed(part, axis) for part in parts), axis=axis)
    if not output.uses() and not output.is_graph_output():
        # Whatever its shape, nothing reads it.
        return new_constant(steps.graph, f"{steps.name}.unread", np.zeros(0, np.float32))
    if output.shape is None or not output.shape.is_static() or output.dtype is None:
        raise GraphError(
            f"{node_text(steps.node)} runs no step, so that {output.name!r} has no elements and an "
            "unknown shape: export the model without it"
        )
    empty = np.zeros(tuple(output.shape), output.dtype.numpy())
    return new_constant(steps.graph, f"{steps.name}.empty", empty)


_WRITERS: Mapping[str, Callable[[Any, Any, int], Sequence[Any] | None]] = {
    "If": _if,
    "Loop": _loop,
    "Scan": _scan,
}
