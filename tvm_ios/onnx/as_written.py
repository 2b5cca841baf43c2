"""A model as its user wrote it, with what is known besides: its shapes, and that weights stay.

Others' runtimes run it, so that each rewrites it as it likes.
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
    """A model whose inputs are static and no weights.

    Parameters
    ----------
    model
        An ``onnx.ModelProto``; it is not changed, and returned where it is so already.
    shapes
        The shapes of inputs with dynamic dimensions, by name.

    Raises
    ------
    InputShapeError
        As :func:`tvm_ios.onnx.rewrites.fix_inputs.fix_inputs`.
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
    """What of a model computes the outputs of its beginning.

    Parameters
    ----------
    model
        An ``onnx.ModelProto`` of static inputs; it is not changed.
    head
        Its beginning with constants folded and quantised operators in floats.

    Returns
    -------
    onnx.ModelProto
        Operators of ``model``; or ``head``, where a rewrite gave one of the outputs another name or
        type.
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
