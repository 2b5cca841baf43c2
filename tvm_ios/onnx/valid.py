"""Refuse models that no runtime takes; ``onnx.checker`` refuses more than those."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import onnx

from tvm_ios.graph.elements import GraphError
from tvm_ios.onnx.cut import names_read
from tvm_ios.onnx.edit import node_text

#: The library's own types are incomplete.
_onnx: Any = onnx

#: Operators that have a meaning, although a newer version of them has another.
_DEPRECATED = ("GroupNormalization",)
#: The checker reads no operators of domains that it does not know.
_UNCHECKED = "unchecked"


def require_valid(model: Any) -> None:
    """Require that operators and weights are as ONNX defines them, or raise GraphError.

    The operators must stand in order. The error is a clause with the first fault.
    """
    graph = model.graph
    known = {value.name for value in (*graph.input, *graph.initializer)}
    for node in graph.node:
        _require_made(node, known)
        known.update(node.output)
    for value in graph.output:
        if value.name not in known:
            raise GraphError(f"nothing makes its output {value.name!r}")
    try:
        for tensor in graph.initializer:
            _onnx.checker.check_tensor(tensor)
        _onnx.checker.check_model(_as_checked(model))
    except Exception as error:  # it raises errors of several types
        lines = [line for line in str(error).splitlines() if line.strip()] or [repr(error)]
        raise GraphError(lines[0].strip()) from error


def _require_made(node: Any, known: Iterable[str]) -> None:
    missing = sorted(names_read(node).difference(known))
    if missing:
        raise GraphError(f"{node_text(node)} reads {missing[0]!r}, which nothing makes")


def _as_checked(model: Any) -> Any:
    """Return a copy without weights, with all that ``onnx.checker`` needs and runtimes do not."""
    copy: Any = _onnx.ModelProto(ir_version=model.ir_version)
    copy.opset_import.extend(model.opset_import)
    copy.opset_import.append(_onnx.helper.make_opsetid(_UNCHECKED, 1))
    copy.functions.extend(model.functions)
    graph = copy.graph
    graph.name = model.graph.name or "graph"
    graph.node.extend(model.graph.node)
    for node in graph.node:
        if node.op_type in _DEPRECATED:
            node.domain = _UNCHECKED
    graph.input.extend(model.graph.input)
    inputs = {value.name for value in graph.input}
    graph.input.extend(
        _onnx.helper.make_tensor_value_info(tensor.name, tensor.data_type, tensor.dims)
        for tensor in model.graph.initializer
        if tensor.name not in inputs
    )
    graph.output.extend(model.graph.output)
    for value in graph.output:
        if value.type.WhichOneof("value") is None:
            value.type.tensor_type.elem_type = _onnx.TensorProto.FLOAT
    for value in (*graph.input, *graph.output):
        if value.type.HasField("tensor_type"):
            # A field that is there, of whatever number of dimensions.
            value.type.tensor_type.shape.SetInParent()
    return copy
