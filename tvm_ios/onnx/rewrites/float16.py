"""Compute models of float16 in float32, in which there are kernels."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx_ir as ir

from tvm_ios.onnx.edit import constant
from tvm_ios.onnx.shape_inference import infer_shapes

_HALF, _FLOAT = ir.DataType.FLOAT16, ir.DataType.FLOAT
#: Types of which float16 has every number.
_EXACT = (ir.DataType.BOOL, ir.DataType.INT8, ir.DataType.UINT8)
#: Attributes that name the type of a result.
_TYPES = ("to", "dtype", "output_dtype")


def compute_in_float32(model: Any) -> None:
    """Let a model compute in float32 what it computes in float16.

    Inputs and outputs keep their types, and numbers that a ``Cast`` rounds to float16 are still
    rounded. Everything else is more exact, as where ONNX Runtime has no kernels for float16.
    """
    graph = model.graph
    if not len(graph) or not _has_float16(graph):
        return
    infer_shapes(model)
    nodes = list(graph)
    values = (*graph.inputs, *graph.initializers.values(), *(v for n in nodes for v in n.outputs))
    halves = [value for value in values if value.dtype == _HALF]
    narrow = set(halves)
    rounded = {node.outputs[0] for node in nodes if _rounds(node, narrow)}
    results = [value for value in graph.outputs if value in narrow]
    for value in halves:
        array = None if value in results else constant(value)
        if array is not None:
            value.const_value = ir.tensor(array.astype(np.float32), name=value.name)
        if array is not None or (value.producer() is not None and value not in rounded):
            _widen(value)
        else:
            readers = list(value.uses())
            wide = _cast(graph, value, _FLOAT)
            for reader in readers:
                reader.node.replace_input_with(reader.idx, wide)
    for value in results:
        if value.dtype == _FLOAT:
            result = _cast(graph, value, _HALF)
            result.name, value.name = value.name, None
            graph.outputs[list(graph.outputs).index(value)] = result


def _has_float16(graph: Any) -> bool:
    values = (*graph.inputs, *graph.initializers.values())
    return any(value.dtype == _HALF for value in values) or any(
        node.attributes.get_int("to", 0) == _HALF for node in graph
    )


def _rounds(node: Any, halves: set[Any]) -> bool:
    """Return whether a node casts numbers to float16 that it may have to round."""
    if node.op_type != "Cast" or node.outputs[0] not in halves:
        return False
    source = node.inputs[0]
    return source not in halves and source.dtype not in _EXACT


def _widen(value: Any) -> None:
    """Make a value one of float32, as its node says."""
    value.dtype = _FLOAT
    node = value.producer()
    if node is None:
        return
    for name in _TYPES:
        if node.attributes.get_int(name, 0) == _HALF:
            node.attributes[name] = ir.AttrInt64(name, int(_FLOAT))
    if node.op_type == "ConstantOfShape" and "value" in node.attributes:
        number = node.attributes["value"].as_tensor().numpy().astype(np.float32)
        node.attributes["value"] = ir.AttrTensor("value", ir.tensor(number))


def _cast(graph: Any, source: Any, dtype: Any) -> Any:
    """Return a value cast by a new node, which is placed right behind the value's own."""
    node: Any = ir.node("Cast", [source], {"to": int(dtype)})
    result = node.outputs[0]
    result.shape, result.dtype = source.shape, dtype
    if source.producer() is None:
        graph.insert_before(graph[0], node)
    else:
        graph.insert_after(source.producer(), node)
    return result
