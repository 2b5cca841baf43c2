"""Infer shapes and types of all values of an ``onnx_ir`` model by ONNX's own inference."""

from __future__ import annotations

import logging
from typing import Any

import onnx
import onnx_ir as ir

#: The libraries' own types are incomplete.
_serde: Any = ir.serde
_onnx: Any = onnx

#: No tensor has more axes.
_MOST_AXES = 64

_log = logging.getLogger(__name__)


def infer_shapes(model: Any) -> None:
    """Give values the shapes and types that ONNX infers.

    Inference reads a copy without weights that cannot determine shapes: only lists of integers and
    small tensors do.
    """
    graph = model.graph
    inputs, initializers = list(graph.inputs), list(graph.initializers.values())
    weights = [v for v in initializers if not v.is_graph_input() and not _may_tell_a_shape(v)]
    try:
        graph.inputs.extend(weights)
        for value in weights:
            value.shape, value.dtype = value.const_value.shape, value.const_value.dtype
            del graph.initializers[value.name]
        copy = _serde.serialize_model(model)
    finally:
        graph.inputs[:] = inputs
        graph.initializers.clear()
        for value in initializers:
            graph.initializers.add(value)
    try:
        inferred = _onnx.shape_inference.infer_shapes(copy, data_prop=True)
    except Exception as error:  # its own error types are private; a model may do without shapes
        _log.info("ONNX infers no shapes: %s", error)
        return
    _take_over(graph, inferred.graph)


def inference_error(node: Any, opset: int) -> str:
    """Return why ONNX refuses to infer an operator of static inputs; empty if it does not.

    The node is of ``onnx_ir``. Operators that hold graphs are not examined.
    """
    read = [value for value in node.inputs if value is not None]
    holds_graphs = any(a.type == ir.AttributeType.GRAPH for a in node.attributes.values())
    is_known = all(v.dtype is not None and v.shape is not None for v in read)
    if node.domain or holds_graphs or not is_known:
        return ""
    if not all(value.shape.is_static() for value in read):
        return ""
    try:
        _onnx.shape_inference.infer_node_outputs(
            _onnx.defs.get_schema(node.op_type, opset),
            _serde.serialize_node(node),
            {value.name: _serde.serialize_value(value).type for value in read},
            {v.name: _serde.serialize_tensor(v.const_value) for v in read if v.const_value},
            [_onnx.helper.make_opsetid("", opset)],
        )
    except _onnx.shape_inference.InferenceError as error:
        return str(error).strip().partition("\n")[0]
    except Exception as error:  # what it raises of operators that it does not know is private
        _log.info("ONNX does not infer %s: %s", node.op_type, error)
    return ""


def _may_tell_a_shape(value: Any) -> bool:
    tensor = value.const_value
    # Scales of a resize are numbers with fractions, one an axis.
    return tensor is None or tensor.size <= _MOST_AXES or _is_list_of_integers(tensor)


def _is_list_of_integers(tensor: Any) -> bool:
    return len(tensor.shape) == 1 and tensor.dtype.is_integer()


def _take_over(graph: Any, inferred: Any) -> None:
    found = {value.name: value.type for value in (*inferred.value_info, *inferred.output)}
    for node, proto in zip(graph, inferred.node, strict=True):
        for value in node.outputs:
            kind = found.get(value.name)
            if kind is None:
                continue
            if (shape := _serde.deserialize_type_proto_for_shape(kind)) is not None:
                value.shape = shape
            if (type_ := _serde.deserialize_type_proto_for_type(kind)) is not None:
                value.type = type_
        for attribute in proto.attribute:
            if attribute.HasField("g"):
                _take_over(node.attributes[attribute.name].as_graph(), attribute.g)
