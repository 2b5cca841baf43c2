"""Refuse simplified ONNX models with operators or types that cannot be compiled."""

from __future__ import annotations

from typing import Any

from onnx import TensorProto

from tvm_ios.graph.elements import GraphError
from tvm_ios.onnx.edit import node_text
from tvm_ios.onnx.rewrites.random import RANDOM
from tvm_ios.onnx.tail import CONTROL_FLOW, SELECT, runs_later, sizes_of

#: Types to and from which TVM's code generator, or DLPack, does not convert.
_UNCONVERTIBLE = (TensorProto.FLOAT8E5M2, TensorProto.FLOAT4E2M1)


def require_tensors(name: str, model: Any) -> None:
    """Require that a model's inputs and outputs are tensors of numbers, or raise GraphError."""
    for what, values in (("input", model.graph.input), ("output", model.graph.output)):
        for value in values:
            kind = value.type.WhichOneof("value")
            strings = value.type.tensor_type.elem_type == TensorProto.STRING
            if kind != "tensor_type" or strings:
                held, remedy = str(kind).replace("_type", ""), "with tensors of numbers"
                if strings:
                    held = "a tensor of strings"
                    remedy = "without the operators on strings, and run those on ONNX Runtime"
                raise GraphError(
                    f"{what} {value.name!r} of {name} is no tensor of numbers but {held}: export "
                    f"the model {remedy}"
                )


def require_supported(name: str, model: Any) -> None:
    """Require that a simplified model can be scheduled, or raise GraphError.

    It must have no control flow, no random numbers, no shapes that depend on data, and no types
    that TVM cannot convert. The error names the operator, its node and a remedy.
    """
    graph = model.graph
    values = {v.name: v for v in (*graph.input, *graph.value_info, *graph.output)}
    weights = {tensor.name for tensor in graph.initializer}
    for value in values.values():
        if value.type.tensor_type.elem_type in _UNCONVERTIBLE:
            raise GraphError(
                f"value {value.name!r} of {name} is of type "
                f"{TensorProto.DataType.Name(value.type.tensor_type.elem_type)}, which TVM cannot "
                "convert: export the model with another one"
            )
    for node in graph.node:
        what = f"{node_text(node)} of {name}"
        if node.op_type in CONTROL_FLOW:
            raise GraphError(
                f"{what} is control flow, which cannot be scheduled: export the model without it, "
                "with the branch taken or the loop unrolled"
            )
        if runs_later(node):
            raise GraphError(f"{what} runs at the end of a model, on ONNX Runtime")
        if node.op_type in RANDOM:
            raise GraphError(
                f"{what} makes other numbers in each run, so that no result can be compared with "
                "another one: let these numbers be an input of the model, export it with the "
                "constant 0 as what multiplies them, or give `tvm-ios optimize` a --random-seed, "
                "which draws normal and uniform numbers once"
            )
        sizes = sizes_of(node.op_type, list(node.input))
        by_data = node.op_type in SELECT or not weights.issuperset(sizes)
        for output in node.output:
            if output and (by_data or not _is_static(values.get(output))):
                raise GraphError(
                    f"{what} makes {output!r}, whose shape depends on the data or is unknown: "
                    "export the model with fixed shapes and without this operator"
                )


def _is_static(value: Any) -> bool:
    """Return whether a value is a tensor whose dimensions are all numbers."""
    if value is None or not value.type.HasField("tensor_type"):
        return False
    tensor = value.type.tensor_type
    return tensor.HasField("shape") and all(d.HasField("dim_value") for d in tensor.shape.dim)
