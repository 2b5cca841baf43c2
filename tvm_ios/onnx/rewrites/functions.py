"""Inline ONNX operators that are defined by others and that TVM's importer lacks or misreads."""

from __future__ import annotations

import inspect
from typing import Any

import onnx
from onnx import helper, inliner, shape_inference

from tvm_ios.graph.elements import GraphError
from tvm_ios.onnx.edit import is_of_onnx

_WRITTEN_OUT = frozenset(
    {
        "Attention",
        "CausalConvWithState",
        "Celu",
        "CenterCropPad",
        "LinearAttention",
        "NegativeLogLikelihoodLoss",
        "RotaryEmbedding",
        "SoftmaxCrossEntropyLoss",
        "SwiGLU",
        "Swish",
    }
)


def write_functions_out(model: Any) -> Any:
    """Return the model with these operators replaced by their definition in the standard.

    The model is not changed. Raise GraphError if there are any and this ``onnx``, before 1.19,
    cannot inline them.
    """
    while functions := _functions_of(model):
        # TVM with Relay needs an older one.
        if len(inspect.signature(inliner.inline_selected_functions).parameters) < 4:
            raise GraphError(
                f"the model has {', '.join(kind for _, kind in functions)}, which onnx "
                f"{onnx.__version__} cannot write out in other operators as 1.19 can: export it "
                "with these decomposed"
            )
        # What an operator is can depend on the types of what it reads, also of weights.
        typed = onnx.ModelProto()
        typed.CopyFrom(model)
        inputs = {value.name for value in typed.graph.input}
        for weight in typed.graph.initializer:
            if weight.name not in inputs:
                kind = helper.make_tensor_value_info(weight.name, weight.data_type, weight.dims)
                typed.graph.value_info.append(kind)
        _give_defaults(typed)
        typed = shape_inference.infer_shapes(typed)
        # It asks for the type of every input, also of one that is omitted.
        typed.graph.value_info.append(onnx.ValueInfoProto(type=onnx.TypeProto()))
        inlined = inliner.inline_selected_functions(typed, functions, False, True)
        if _functions_of(inlined) == functions:
            return inlined
        model = inlined
    return model


def _give_defaults(model: Any) -> None:
    """Write out the default attributes of nodes, which the inliner does not know."""
    (opset,) = (entry.version for entry in model.opset_import if entry.domain in ("", "ai.onnx"))
    for node in model.graph.node:
        if node.op_type not in _WRITTEN_OUT or not is_of_onnx(node):
            continue
        stated = {attribute.name for attribute in node.attribute}
        for attribute in onnx.defs.get_schema(node.op_type, opset).attributes.values():
            if attribute.name not in stated and attribute.default_value.name:
                node.attribute.append(attribute.default_value)


def _functions_of(model: Any) -> list[tuple[str, str]]:
    kinds = {node.op_type for node in model.graph.node if is_of_onnx(node)}
    return [("", kind) for kind in sorted(kinds & _WRITTEN_OUT)]
