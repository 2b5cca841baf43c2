"""A model as its user wrote it, but with static input shapes and with weights as constants.

Other packages' runtimes run this model, so that each applies its own optimisations.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import onnx
import onnx_ir as ir

from tvm_ios.onnx.cut import names_read
from tvm_ios.onnx.edit import free_weights_from_inputs
from tvm_ios.onnx.inputs import free_inputs
from tvm_ios.onnx.rewrites.fix_inputs import fix_inputs
from tvm_ios.onnx.shape_inference import infer_shapes

#: The library's own types are incomplete.
_onnx: Any = onnx


def with_static_inputs(model: Any, shapes: Mapping[str, Sequence[int]]) -> Any:
    """Return the model with static input shapes and with no weights among its inputs.

    ``shapes`` gives the shapes of inputs with dynamic dimensions, by name. The model is not
    changed, and returned itself if nothing is to do. Raise InputShapeError as
    :func:`tvm_ios.onnx.rewrites.fix_inputs.fix_inputs`.
    """
    free = free_inputs(model)
    if len(free) == len(model.graph.input) and all(map(_is_static, free)):
        return model
    work: Any = ir.serde.deserialize_model(model)
    # Before version 4 every initializer had to be an input.
    work.ir_version = max(work.ir_version, 4)
    free_weights_from_inputs(work.graph)
    fix_inputs(work.graph, shapes)
    infer_shapes(work)
    return ir.serde.serialize_model(work)


def beginning_as_written(model: Any, head: Any) -> Any:
    """Return the part of a model, as written, that computes the outputs of its beginning.

    ``head`` is that beginning after simplification. It is returned itself if simplification renamed
    one of its outputs or changed its type. ``model`` has static inputs and is not changed.
    """
    types = {value.name: _type(value) for value in _with_types(model)}
    if any(types.get(value.name) != _type(value) for value in head.graph.output):
        return head
    needed = {value.name for value in head.graph.output}
    nodes: list[Any] = []
    for node in reversed(model.graph.node):
        if not needed.isdisjoint(node.output):
            nodes.append(node)
            needed |= names_read(node)
    part: Any = onnx.ModelProto()
    part.CopyFrom(model)
    graph = part.graph
    del graph.node[:], graph.output[:], graph.value_info[:], graph.initializer[:]
    graph.node.extend(reversed(nodes))
    graph.output.extend(head.graph.output)
    graph.initializer.extend(w for w in model.graph.initializer if w.name in needed)
    return part


def _with_types(model: Any) -> Sequence[Any]:
    try:
        graph = _onnx.shape_inference.infer_shapes(model).graph
    except Exception:  # What it raises is private; it takes no models of 2 GB.
        graph = model.graph
    return (*graph.input, *graph.value_info, *graph.output)


def _type(value: Any) -> int:
    return value.type.tensor_type.elem_type


def _is_static(value: Any) -> bool:
    tensor = value.type.tensor_type
    # Some exporters write 0 for an unknown extent.
    return tensor.HasField("shape") and all(extent.dim_value > 0 for extent in tensor.shape.dim)
