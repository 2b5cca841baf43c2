"""Extents of data that the weights of its readers determine."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from onnx import helper

from tvm_ios.graph.elements import GraphError
from tvm_ios.onnx.edit import is_of_onnx, node_text
from tvm_ios.onnx.inputs import free_inputs

#: From the extents of weights and what a node states to the axis of its first input, and the extent
#: that this has to have.
_Want = Callable[[Sequence[int], Mapping[str, Any]], tuple[int, int]]


def _gemm(weight: Sequence[int], states: Mapping[str, Any]) -> tuple[int, int]:
    return 0 if states.get("transA") else 1, weight[1 if states.get("transB") else 0]


def _conv(weight: Sequence[int], states: Mapping[str, Any]) -> tuple[int, int]:
    return 1, weight[1] * states.get("group", 1)


_WANTS: Mapping[str, tuple[int, _Want]] = {
    "Conv": (3, _conv),
    "ConvTranspose": (3, lambda weight, _: (1, weight[0])),
    "Gemm": (2, _gemm),
    "MatMul": (2, lambda weight, _: (-1, weight[-2])),
    **dict.fromkeys(("GRU", "LSTM", "RNN"), (3, lambda weight, _: (2, weight[2]))),
}


def extents_of_weights(model: Any) -> dict[str, dict[int, int]]:
    """Return the extents, by input and axis, that follow from weights multiplying the inputs.

    Only operators that read an input directly are considered.
    """
    weights = {tensor.name: list(tensor.dims) for tensor in model.graph.initializer}
    ranks = {
        value.name: len(value.type.tensor_type.shape.dim)
        for value in free_inputs(model)
        if value.type.tensor_type.HasField("shape")
    }
    found: dict[str, dict[int, int]] = {}
    for node in model.graph.node:
        if node.op_type in _WANTS and is_of_onnx(node) and node.input[0] in ranks:
            states = {a.name: helper.get_attribute_value(a) for a in node.attribute}
            rank = ranks[node.input[0]]
            for axis, extent in _wanted(node.op_type, weights.get(node.input[1]), states, rank):
                found.setdefault(node.input[0], {})[axis] = extent
    return found


def require_fitting(graph: Any) -> None:
    """Require that data fit the weights they are multiplied by, or raise GraphError.

    Unknown shapes are not checked. The error names the operator, the data, and the wanted extent.
    """
    for node in graph:
        if node.op_type not in _WANTS or not is_of_onnx(node):
            continue
        source, weight = node.inputs[:2]
        if source is None or source.shape is None or weight.const_value is None:
            continue
        states = {name: attribute.value for name, attribute in node.attributes.items()}
        rank = len(source.shape)
        for axis, extent in _wanted(node.op_type, list(weight.const_value.shape), states, rank):
            if isinstance(source.shape[axis], int) and source.shape[axis] != extent:
                what = "input" if source.is_graph_input() else "value"
                raise GraphError(
                    f"{node_text(node)} reads the {what} {source.name!r} of shape {source.shape}, "
                    f"and its weights {weight.name!r} want {extent} in dimension {axis}: give the "
                    "inputs other shapes"
                )


def _wanted(
    kind: str, weight: Sequence[int] | None, states: Mapping[str, Any], rank: int
) -> Iterator[tuple[int, int]]:
    """Yield the axis and the extent of it that weights determine, if they determine one."""
    least, want = _WANTS[kind]
    if weight is not None and len(weight) >= least:
        axis, extent = want(weight, states)
        if -rank <= axis < rank:
            yield axis % rank, extent
