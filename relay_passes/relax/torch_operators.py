"""Which operators of ONNX those of a program of ``torch.export`` are, to draw inputs at edges."""

from __future__ import annotations

from typing import Any

import onnx
import tvm
from onnx import TensorProto, helper
from tvm import relax

from relay_passes.relax.expressions import (
    bindings_of,
    data_type,
    leaves,
    operator_name,
    static_shape,
)

#: Of what computes or moves each element alone. Of others torch says what ONNX leaves open, so that
#: they keep their names, which nothing is drawn for.
_OF_ONNX = {
    **{f"relax.{kind.lower()}": kind for kind in ("Abs", "Add", "Ceil", "Clip", "Equal", "Erf")},
    **{f"relax.{kind.lower()}": kind for kind in ("Exp", "Floor", "Greater", "IsInf", "IsNaN")},
    **{f"relax.{kind.lower()}": kind for kind in ("Less", "Log", "Reshape", "Round", "Sigmoid")},
    **{f"relax.{kind.lower()}": kind for kind in ("Sqrt", "Tanh", "Where")},
    "relax.divide": "Div",
    "relax.expand_dims": "Unsqueeze",
    "relax.greater_equal": "GreaterOrEqual",
    "relax.less_equal": "LessOrEqual",
    "relax.maximum": "Max",
    "relax.minimum": "Min",
    "relax.multiply": "Mul",
    "relax.negative": "Neg",
    "relax.nn.leakyrelu": "LeakyRelu",
    "relax.nn.relu": "Relu",
    "relax.not_equal": "Equal",
    "relax.permute_dims": "Transpose",
    "relax.squeeze": "Squeeze",
    "relax.subtract": "Sub",
}


def onnx_operators(module: tvm.IRModule) -> onnx.ModelProto:
    """A model of the operators of ``main`` and what they read, without attributes and weights."""
    main = module["main"]
    names: dict[Any, str] = {parameter: parameter.name for parameter in main.params}
    nodes: list[Any] = []
    for place, binding in enumerate(bindings_of(main)):
        value, kind = binding.value, operator_name(binding.value)
        names[binding.var] = f"value{place}"
        # What is returned is no operator.
        if isinstance(value, relax.Tuple) and binding.var.same_as(main.body.body):
            continue
        inputs = [
            names.get(argument, f"constant{place}.{i}")
            for i, argument in enumerate(getattr(value, "args", None) or leaves(value))
        ]
        if kind in ("relax.reshape", "relax.permute_dims"):
            del inputs[1:]
        nodes.append(helper.make_node(_OF_ONNX.get(kind, kind), inputs, [names[binding.var]]))
    types = {"float32": TensorProto.FLOAT, "bool": TensorProto.BOOL}
    ports = [
        helper.make_tensor_value_info(
            parameter.name,
            types.get(data_type(parameter), TensorProto.INT64),
            static_shape(parameter),
        )
        for parameter in main.params
    ]
    return helper.make_model(helper.make_graph(nodes, "operators", ports, []))
